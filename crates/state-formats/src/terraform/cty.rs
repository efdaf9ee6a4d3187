//! Type constraints as Terraform writes them next to values: `"string"`, `["list", T]`, `["object", {…}]` and so on.

use state_core::json::{ArrayWriter, Kind, ObjectWriter, View};

/// Whether a JSON value is a valid type constraint.
pub(super) fn is_type(view: &View<'_>) -> bool {
    match view.kind() {
        Kind::String => view
            .as_str()
            .is_some_and(|name| matches!(&*name, "string" | "number" | "bool" | "dynamic")),
        Kind::Array => is_compound(view),
        _ => false,
    }
}

fn is_compound(view: &View<'_>) -> bool {
    let mut elements = view.elements().into_iter().flatten();
    let name = elements.next().and_then(|name| name.as_str());
    let (Some(name), Some(inner)) = (name, elements.next()) else {
        return false;
    };
    // Object types may have a third element: the names of optional attributes.
    let after = elements.next();
    match &*name {
        "list" | "set" | "map" => after.is_none() && is_type(&inner),
        "object" => inner
            .members()
            .is_some_and(|mut members| members.all(|(_, t)| is_type(&t))),
        "tuple" => {
            after.is_none()
                && inner
                    .elements()
                    .is_some_and(|mut types| types.all(|t| is_type(&t)))
        }
        _ => false,
    }
}

/// Whether a value conforms to a type. Primitive types accept every scalar, as Terraform's own reader does.
pub(super) fn fits(value: &View<'_>, r#type: &View<'_>) -> bool {
    if value.is_null() {
        return true;
    }
    if r#type.kind() == Kind::String {
        let is_dynamic = r#type.as_str().as_deref() == Some("dynamic");
        return is_dynamic || !matches!(value.kind(), Kind::Array | Kind::Object);
    }
    let (Some(name), Some(inner)) = (r#type.index(0).and_then(|name| name.as_str()), r#type.index(1)) else {
        return false;
    };
    match &*name {
        "list" | "set" => value
            .elements()
            .is_some_and(|mut all| all.all(|v| fits(&v, &inner))),
        "map" => value
            .members()
            .is_some_and(|mut all| all.all(|(_, v)| fits(&v, &inner))),
        "tuple" => fits_tuple(value, &inner),
        "object" => fits_object(value, &inner),
        _ => false,
    }
}

fn fits_tuple(value: &View<'_>, types: &View<'_>) -> bool {
    let (Some(mut values), Some(mut types)) = (value.elements(), types.elements()) else {
        return false;
    };
    loop {
        match (values.next(), types.next()) {
            (None, None) => return true,
            (Some(value), Some(r#type)) if fits(&value, &r#type) => {}
            _ => return false,
        }
    }
}

fn fits_object(value: &View<'_>, types: &View<'_>) -> bool {
    let (Some(values), Some(types)) = (value.members(), types.members()) else {
        return false;
    };
    // Both objects are usually sorted, and then their members correspond one by one.
    let mut remaining = (values.clone(), types.clone());
    loop {
        match (remaining.0.next(), remaining.1.next()) {
            (None, None) => return true,
            (Some((key, value)), Some((name, r#type))) if key == name => {
                if !fits(&value, &r#type) {
                    return false;
                }
            }
            _ => break,
        }
    }
    let types: std::collections::BTreeMap<_, _> = types.collect();
    let mut count = 0;
    for (key, value) in values {
        if !types.get(&key).is_some_and(|r#type| fits(&value, r#type)) {
            return false;
        }
        count += 1;
    }
    count == types.len()
}

/// Infers the type of a value: an array gets a tuple type, an object gets an object type.
pub(super) fn type_of(value: &View<'_>) -> String {
    let mut text = String::new();
    write_type_of(value, &mut text);
    text
}

fn write_type_of(value: &View<'_>, out: &mut String) {
    match value.kind() {
        Kind::Null => out.push_str("\"dynamic\""),
        Kind::Bool => out.push_str("\"bool\""),
        Kind::Number => out.push_str("\"number\""),
        Kind::String => out.push_str("\"string\""),
        Kind::Array => {
            out.push_str("[\"tuple\",");
            let mut types = ArrayWriter::new(out);
            for element in value.elements().into_iter().flatten() {
                write_type_of(&element, types.element());
            }
            types.finish();
            out.push(']');
        }
        Kind::Object => {
            out.push_str("[\"object\",");
            let mut object = ObjectWriter::new(out);
            for (key, member) in value.members().into_iter().flatten() {
                write_type_of(&member, object.member(&key));
            }
            object.finish();
            out.push(']');
        }
    }
}

/// Infers the type of a value of old Terraform versions, which had only lists and maps: an array or object whose
/// members all have the same type becomes a list or map.
pub(super) fn collection_type_of(value: &View<'_>) -> String {
    let (name, members): (_, Vec<View<'_>>) = match value.kind() {
        Kind::Array => ("list", value.elements().into_iter().flatten().collect()),
        Kind::Object => {
            let members = value.members().into_iter().flatten();
            ("map", members.map(|(_, member)| member).collect())
        }
        _ => ("", Vec::new()),
    };
    let Some((first, others)) = members.split_first() else {
        return type_of(value);
    };
    let of_first = type_of(first);
    if others.iter().any(|other| type_of(other) != of_first) {
        return type_of(value);
    }
    format!("[\"{name}\",{}]", collection_type_of(first))
}

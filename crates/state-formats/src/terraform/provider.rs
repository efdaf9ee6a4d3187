//! The grammar of provider references, old and new.
//!
//! `provider["registry.terraform.io/hashicorp/aws"]`, perhaps behind a module path without keys, perhaps with an alias
//! and OpenTofu's instance key after it; older states name the type alone: `module.x.provider.aws.west`.

use super::address::{Key, ResourceAddress, is_identifier};

/// Whether a text is a provider reference.
pub(super) fn is_reference(text: &str) -> bool {
    provider_part(text).is_some_and(|rest| rest.is_empty())
}

/// Module path with its last dot, name and alias of a reference that has no source, if it is one.
fn split_legacy(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let at = match text.starts_with("provider.") {
        true => 0,
        false => text.find(".provider.")? + 1,
    };
    let (module, rest) = text.split_at(at);
    let named = rest.strip_prefix("provider.")?.trim_start_matches(' ');
    Some(match named.split_once('.') {
        Some((name, alias)) => (module, name, Some(alias.trim_start_matches(' '))),
        None => (module, named, None),
    })
}

/// What follows the reference.
fn provider_part(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(module) = rest.strip_prefix("module.") {
        let (name, after) = module.split_once('.')?;
        rest = is_identifier(name).then_some(after)?;
    }
    rest = rest.strip_prefix("provider")?;
    rest = match Key::split_off(rest) {
        Some((Key::Text(source), after)) => is_source(&source).then_some(after)?,
        Some((Key::Number(_), _)) => return None,
        None => split_name(rest)?,
    };
    if rest.starts_with('.') {
        rest = split_name(rest)?;
    }
    if rest.starts_with('[') {
        rest = Key::split_off(rest)?.1;
    }
    Some(rest)
}

/// What follows `.name`. Old writers let a space stand after the dot.
fn split_name(text: &str) -> Option<&str> {
    let named = text.strip_prefix('.')?.trim_start_matches(' ');
    let end = named.find(['.', '[']).unwrap_or(named.len());
    let (name, rest) = named.split_at(end);
    is_identifier(name).then_some(rest)
}

/// `host/namespace/type`, or the last one or two of these.
fn is_source(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '$' | '{' | '}'))
    };
    text.split('/').count() <= 3 && text.split('/').all(is_part)
}

/// The reference of version 4. Fails with what is wrong.
///
/// `aws.west` is the provider of that name in the resource's own module, `module.m.provider.aws.west` says which
/// module's it is.
pub(super) fn upgrade(text: &str, address: &ResourceAddress) -> Result<String, &'static str> {
    if text.is_empty() {
        return Ok(implied(address));
    }
    if text.contains("${") {
        return Err(
            "the alias of this provider holds a template, which Terraform 0.11 took by mistake: \
             rename the alias and apply with Terraform 0.11",
        );
    }
    let refused = "`provider` isn't a provider reference";
    let absolute = if text.contains("provider.") {
        text.to_owned()
    } else {
        format!("{}provider.{text}", prefix(&address.module))
    };
    if !is_reference(&absolute) {
        return Err(refused);
    }
    let (module, name, alias) = split_legacy(&absolute).ok_or(refused)?;
    Ok(reference(module, name, alias))
}

/// The reference of a resource that names no provider: that of its type's first word, in its own module.
pub(super) fn implied(address: &ResourceAddress) -> String {
    let name = address.kind.split('_').next().unwrap_or_default();
    reference(&prefix(&address.module), name, None)
}

fn prefix(module: &str) -> String {
    if module.is_empty() {
        return String::new();
    }
    format!("{module}.")
}

fn reference(prefix: &str, name: &str, alias: Option<&str>) -> String {
    let source = match name {
        "terraform" => "terraform.io/builtin/terraform".to_owned(),
        name => format!("registry.terraform.io/-/{name}"),
    };
    let alias = alias.map(|alias| format!(".{alias}")).unwrap_or_default();
    format!("{prefix}provider[\"{source}\"]{alias}")
}

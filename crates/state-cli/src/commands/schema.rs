//! The command `schema`: JSON Schemas of the documents that `--json` prints.
//!
//! A release may add fields within a format version, but never removes one or changes its meaning. The schemas therefore
//! allow additional properties.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::formats;
use crate::output::FORMAT_VERSION;
use serde_json::{Map, Value, json};

/// The schemas of all kinds of documents and of errors, with their shared definitions.
const DATA: &str = include_str!("../../schemas/data.json");

/// Print the JSON Schema of a `--json` document
///
/// Without DOCUMENT, lists the kinds of documents.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The document's `kind`; `error` for errors
    #[arg(value_name = "DOCUMENT")]
    kind: Option<String>,
}

/// Runs the command `schema` and returns its report.
pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let mut data: Map<String, Value> = serde_json::from_str(DATA)
        .map_err(|error| CliError::failed("built-in schemas", &error.to_string()))?;
    let names: Vec<_> = formats::all().iter().map(|format| format.name()).collect();
    data["$defs"]["format"]["enum"] = json!(names);
    let Some(kind) = &args.kind else {
        let kinds = kinds(&data);
        return context.report("schema", &kinds, Vec::new(), |page| {
            for kind in &kinds {
                page.line(kind);
            }
        });
    };
    let schema = schema(&data, kind).ok_or_else(|| {
        let listing = "list all kinds with `statectl schema`";
        CliError::not_found(format!("kind {kind}"), "unknown document kind").with_nearest(
            kind,
            kinds(&data),
            listing,
            listing,
        )
    })?;
    context.report("schema", &schema, Vec::new(), |page| {
        for line in format!("{schema:#}").lines() {
            page.line(line);
        }
    })
}

fn kinds(data: &Map<String, Value>) -> Vec<&str> {
    let kinds = data["kinds"].as_object().into_iter().flatten();
    kinds.map(|(kind, _)| kind.as_str()).chain(["error"]).collect()
}

/// The schema of a whole document, with its envelope; none for an unknown kind.
fn schema(data: &Map<String, Value>, kind: &str) -> Option<Value> {
    let (field, content) = match kind {
        "error" => ("error", data.get("error")?),
        _ => ("data", data.get("kinds")?.get(kind)?),
    };
    let mut properties = json!({
        "kind": { "const": kind },
        "format-version": { "const": FORMAT_VERSION },
        field: content,
    });
    if field == "data" {
        properties["warnings"] = json!({ "type": "array", "items": { "type": "string" } });
    }
    let mut shared = Map::new();
    collect(content, &data["$defs"], &mut shared);
    Some(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("statectl {kind}"),
        "type": "object",
        "properties": properties,
        "required": ["kind", "format-version", field],
        "$defs": shared,
    }))
}

/// Collects the definitions that a schema refers to, directly or through other definitions.
fn collect(schema: &Value, defs: &Value, shared: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str);
            if let Some(name) = name.and_then(|name| name.strip_prefix("#/$defs/"))
                && let Some(definition) = defs.get(name)
                && shared.insert(name.to_owned(), definition.clone()).is_none()
            {
                collect(definition, defs, shared);
            }
            for member in members.values() {
                collect(member, defs, shared);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                collect(element, defs, shared);
            }
        }
        _ => {}
    }
}

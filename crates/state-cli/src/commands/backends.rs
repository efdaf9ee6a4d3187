//! The command `backends`: lists store types and their configuration keys.

use crate::context::{CommandResult, Context};
use serde::Serialize;
use state_core::backend::BackendType;
use state_core::configuration::{ConfigurationType, FieldType};
use state_manager::BackendRegistry;

#[derive(Serialize)]
struct Kind<'a> {
    name: &'a str,
    description: &'a str,
    url: String,
    configuration: &'a ConfigurationType,
}

/// Runs the command `backends` and returns its report.
pub(crate) fn run(context: &Context) -> CommandResult {
    let registry = BackendRegistry::default();
    let kinds: Vec<Kind<'_>> = registry.types().map(kind).collect();
    context.report("backends", &kinds, Vec::new(), |page| {
        for (index, kind) in kinds.iter().enumerate() {
            if index > 0 {
                page.line("");
            }
            page.line(format_args!("{}  {}", kind.url, kind.description));
            let fields = kind.configuration.fields();
            if fields.is_empty() {
                continue;
            }
            let rows = fields.iter().map(|field| {
                [
                    format!("  {}", field.name()),
                    field.kind().name().to_owned(),
                    default(field),
                    field.description().to_owned(),
                ]
            });
            page.table(["  KEY", "TYPE", "DEFAULT", "DESCRIPTION"], rows);
        }
    })
}

fn kind(kind: &BackendType) -> Kind<'_> {
    let places: Vec<_> = kind.location().iter().map(|name| name.to_uppercase()).collect();
    Kind {
        name: kind.name(),
        description: kind.description(),
        url: format!("{}://{}", kind.name(), places.join("/")),
        configuration: kind.configuration(),
    }
}

fn default(field: &FieldType) -> String {
    match field.default() {
        Some(value) => value.to_string(),
        None if field.is_required() => "(required)".to_owned(),
        None if field.is_secret() => "(secret)".to_owned(),
        None => String::new(),
    }
}

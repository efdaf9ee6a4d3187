//! The command `kinds`: the kinds of resources that a program can declare, with their inputs and outputs. Needs no store.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::render::Page;
use serde::Serialize;
use state_core::Json;
use state_engine::builtin;
use state_engine::kind::{InputProperty, KindDescription, OutputProperty};

/// List resource kinds with their inputs and outputs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Describe this kind only
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    description: &'static str,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Whether a resource may have outputs beyond those listed.
    #[serde(rename = "more-outputs")]
    more_outputs: bool,
}

#[derive(Serialize)]
struct Input {
    name: &'static str,
    takes: String,
    required: bool,
    default: Option<Json>,
    description: &'static str,
}

#[derive(Serialize)]
struct Output {
    name: &'static str,
    sensitive: bool,
    description: &'static str,
}

/// Runs `kinds`. With `--json`, the result is a list of full descriptions, also for a single kind.
pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let all = builtin::kinds();
    let Some(wanted) = &args.kind else {
        let kinds: Vec<Kind> = all.iter().map(Kind::of).collect();
        return context.report("kinds", &kinds, Vec::new(), |page| {
            let rows = kinds
                .iter()
                .map(|kind| [kind.kind.to_owned(), kind.description.to_owned()]);
            page.table(["KIND", "DESCRIPTION"], rows);
        });
    };
    let found = all.iter().find(|kind| kind.kind == wanted);
    let kind = Kind::of(found.ok_or_else(|| unknown(wanted, all))?);
    context.report("kinds", &[&kind], Vec::new(), |page| kind.print(page))
}

fn unknown(wanted: &str, all: &[KindDescription]) -> CliError {
    let listing = "list all kinds with `statectl kinds`";
    let object = format!("kind {wanted}");
    CliError::not_found(object, "unknown resource kind").with_nearest(
        wanted,
        all.iter().map(|kind| kind.kind),
        listing,
        listing,
    )
}

impl Kind {
    fn of(kind: &KindDescription) -> Self {
        Self {
            kind: kind.kind,
            description: kind.description,
            inputs: kind.inputs.iter().map(Input::of).collect(),
            outputs: kind.outputs.iter().map(Output::of).collect(),
            more_outputs: kind.more_outputs,
        }
    }

    fn print(&self, page: &mut Page) {
        page.heading(self.kind);
        page.block(self.description);
        if !self.inputs.is_empty() {
            page.space("\n");
            let rows = self.inputs.iter().map(|input| {
                [
                    input.name.to_owned(),
                    input.takes.clone(),
                    input.default_text(),
                    input.description.to_owned(),
                ]
            });
            page.table(["INPUT", "TYPE", "DEFAULT", "DESCRIPTION"], rows);
        }
        if !self.outputs.is_empty() {
            page.space("\n");
            let rows = self.outputs.iter().map(|output| {
                let sensitive = if output.sensitive { "yes" } else { "" };
                [output.name, sensitive, output.description]
            });
            let more = self
                .more_outputs
                .then_some(["…", "", "other outputs of the resource"]);
            let rows = rows.chain(more).map(|row| row.map(str::to_owned));
            page.table(["OUTPUT", "SENSITIVE", "DESCRIPTION"], rows);
        }
    }
}

impl Input {
    fn of(input: &InputProperty) -> Self {
        Self {
            name: input.name,
            takes: input.takes.to_string(),
            required: input.required,
            default: input.default.map(Json::from_canonical),
            description: input.description,
        }
    }

    fn default_text(&self) -> String {
        match &self.default {
            _ if self.required => "(required)".to_owned(),
            Some(default) => default.as_str().to_owned(),
            None => String::new(),
        }
    }
}

impl Output {
    const fn of(output: &OutputProperty) -> Self {
        Self {
            name: output.name,
            sensitive: output.sensitive,
            description: output.description,
        }
    }
}

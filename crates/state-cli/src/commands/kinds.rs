//! `kinds`: what a program can make, and what each kind takes and gives. It needs no store.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::render::Page;
use serde::Serialize;
use state_core::Json;
use state_engine::builtin;
use state_engine::kind::{InputProperty, KindDescription, OutputProperty};

/// List the kinds of resources that a program can have; with a kind, what it takes and gives.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say all of this kind.
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    description: &'static str,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// An object may have others as well.
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

/// Lists all of them, or says all of one. In JSON both are a list of whole descriptions.
pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let all = builtin::kinds();
    let Some(wanted) = &args.kind else {
        let kinds: Vec<Kind> = all.iter().map(Kind::of).collect();
        return context.report("kinds", &kinds, Vec::new(), |page| {
            let rows = kinds
                .iter()
                .map(|kind| [kind.kind.to_owned(), kind.description.to_owned()]);
            page.table(["KIND", "WHAT"], rows);
        });
    };
    let found = all.iter().find(|kind| kind.kind == wanted);
    let kind = Kind::of(found.ok_or_else(|| unknown(wanted, all))?);
    context.report("kinds", &[&kind], Vec::new(), |page| kind.print(page))
}

fn unknown(wanted: &str, all: &[KindDescription]) -> CliError {
    let listing = "`statectl kinds` lists all kinds";
    let object = format!("kind {wanted}");
    CliError::not_found(object, "nothing that a program has is of it").with_nearest(
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
                    input.unless_given(),
                    input.description.to_owned(),
                ]
            });
            page.table(["INPUT", "TAKES", "UNLESS GIVEN", "WHAT"], rows);
        }
        if !self.outputs.is_empty() {
            page.space("\n");
            let rows = self.outputs.iter().map(|output| {
                let shown = if output.sensitive { "secret" } else { "" };
                [output.name, shown, output.description]
            });
            let more = self
                .more_outputs
                .then_some(["…", "", "whatever else an object has"]);
            let rows = rows.chain(more).map(|row| row.map(str::to_owned));
            page.table(["OUTPUT", "SHOWN", "WHAT"], rows);
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

    fn unless_given(&self) -> String {
        match &self.default {
            _ if self.required => "must be given".to_owned(),
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

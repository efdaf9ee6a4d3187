//! `copy`: stacks with their whole history go to another store.

use crate::context::Context;
use crate::error::CliError;
use crate::marks::count;
use crate::output::{Report, to_stderr};
use crate::render::visible;
use crate::settings;
use crate::store;
use serde::Serialize;
use state_core::StackName;
use state_core::backend::Opening;

/// Copy a stack, or all of a store, to another store: the whole history, byte for byte, sealed or not.
///
/// Both are named by their URLs. A copy that is cut short is finished by running it again. Afterwards the two are
/// compared. The copy keeps its lineage: agree on which of the two goes on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store that the stacks are in.
    #[arg(value_name = "FROM")]
    from: String,
    /// The store that they go to. Made if it isn't there.
    #[arg(value_name = "TO")]
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    from: String,
    to: String,
    stacks: Vec<Line>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    stack: String,
    lineage: String,
    frames: u64,
    objects: u64,
    was_there: bool,
}

/// Copies.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let (from, to) = (settings::url_of(&args.from), settings::url_of(&args.to));
    let source = context.store.connect(&from, Opening::Existing).await;
    let source = source.map_err(|error| store::not_there(error, &from))?;
    let names: Vec<StackName> = match &context.settings.stack {
        Some(name) => vec![name.clone()],
        None => source.names().await?,
    };
    if names.is_empty() {
        let object = format!("store {}", settings::shown(&from));
        return Err(CliError::not_found(object, "it has no stack to copy"));
    }
    let mut found = Vec::new();
    for name in &names {
        found.push(context.store.find(&source, name).await?);
    }
    let target = context.store.connect(&to, Opening::Create).await;
    let target = target.map_err(store::not_opened)?;
    let mut stacks = Vec::new();
    for stack in &found {
        let name = stack.name();
        if context.output.shows_progress() {
            to_stderr(&format!("copying stack {}\n", visible(&name.short())));
        }
        let copied = target.copy_from(stack).await?;
        stacks.push(Line {
            stack: copied.name.to_string(),
            lineage: copied.lineage.to_string(),
            frames: copied.frames,
            objects: copied.objects,
            was_there: copied.was_there,
        });
    }
    let done = Done {
        from: settings::shown(&from),
        to: settings::shown(&to),
        stacks,
    };
    context.report("copy", &done, Vec::new(), |page| {
        for line in &done.stacks {
            page.line(line.told());
        }
    })
}

impl Line {
    fn told(&self) -> String {
        let counted =
            |number: u64, one, many| count(usize::try_from(number).unwrap_or(usize::MAX), one, many);
        let word = if self.was_there {
            "was there already"
        } else {
            "copied"
        };
        format!(
            "{}: {word}, {} and {} compared",
            self.stack,
            counted(self.frames, "frame", "frames"),
            counted(self.objects, "object", "objects")
        )
    }
}

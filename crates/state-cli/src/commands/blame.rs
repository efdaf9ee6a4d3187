//! `blame`: which revision each property of an entry is from.

use crate::context::{CommandResult, Context};
use crate::reading::{At, Reading};
use crate::render::time::age;
use serde::Serialize;
use state_core::{Address, ErrorKind};
use state_manager::MaskedBlame;

/// Tell for each property of an entry which revision last changed it, who made that, and when. Follows moves.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its address, as `list` prints it.
    #[arg(value_name = "ADDR")]
    address: Address,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct Blamed {
    stack: String,
    #[serde(flatten)]
    blame: MaskedBlame,
}

/// Blames.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let at = reading.standing.at.as_ref();
    let blame = match reading.stack.blame(&args.address, at).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(reading.missing(&args.address)),
        other => other?,
    };
    let blamed = Blamed {
        stack: reading.standing.stack.clone(),
        blame: blame.masked(context.settings.mask()),
    };
    let now = context.now();
    context.report("blame", &blamed, reading.standing.warnings(), |page| {
        let rows = blamed
            .blame
            .properties
            .iter()
            .map(|line| line.cells(|when| age(&now, when)));
        page.table(["REVISION", "WHO", "WHEN", "PROPERTY", "VALUE"], rows);
    })
}

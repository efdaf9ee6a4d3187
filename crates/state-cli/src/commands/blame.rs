//! `blame`: which revision each property of an entry is from.

use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use crate::reading::{At, Reading};
use crate::render::table;
use crate::render::time::age;
use serde::Serialize;
use state_core::diff::short_text;
use state_core::mask::Mask;
use state_core::{Address, EntryKey, ErrorKind, Json, RevisionId, Timestamp, UpdateKind};
use state_manager::{BlameLine, RevisionKind};

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
    key: EntryKey,
    properties: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    pointer: String,
    value: Json,
    sensitive: bool,
    /// None while no revision has it.
    revision: Option<RevisionId>,
    kind: Option<UpdateKind>,
    who: Option<String>,
    host: Option<String>,
    when: Option<Timestamp>,
    message: Option<String>,
}

impl Line {
    fn new(line: BlameLine, mask: Mask) -> Self {
        let value = &line.property.value;
        let (id, update) = match line.revision {
            None => (None, None),
            Some(revision) => match revision.kind {
                RevisionKind::Update(update) => (Some(revision.id), Some(*update)),
                RevisionKind::Stored => (Some(revision.id), None),
            },
        };
        Self {
            value: mask.value(value),
            sensitive: value.is_sensitive(),
            pointer: line.property.pointer,
            revision: id,
            kind: update.as_ref().map(|update| update.kind),
            who: update.as_ref().map(|update| update.who.clone()),
            host: update.as_ref().map(|update| update.host.clone()),
            when: update
                .as_ref()
                .map(|update| update.end.clone().unwrap_or_else(|| update.start.clone())),
            message: update.map(|update| update.message),
        }
    }

    fn row(&self, now: &Timestamp) -> [String; 5] {
        let revision = self.revision.as_ref();
        let who = self.who.as_deref().zip(self.host.as_deref());
        let name = self.pointer.strip_prefix('/').unwrap_or(&self.pointer);
        [
            revision.map_or("none yet".to_owned(), ToString::to_string),
            who.map(|(who, host)| format!("{who}@{host}")).unwrap_or_default(),
            self.when.as_ref().map(|when| age(now, when)).unwrap_or_default(),
            name.to_owned(),
            short_text(&self.value),
        ]
    }
}

/// Blames.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let reading = Reading::open(context, &args.at).await?;
    let at = reading.standing.at.as_ref();
    let blame = match reading.stack.blame(&args.address, at).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(reading.missing(&args.address)),
        other => other?,
    };
    let mask = context.settings.mask();
    let blamed = Blamed {
        stack: reading.standing.stack.clone(),
        key: blame.entry.key(),
        properties: blame
            .lines
            .into_iter()
            .map(|line| Line::new(line, mask))
            .collect(),
    };
    let now = context.now();
    context.report("blame", &blamed, reading.standing.warnings(), |page| {
        let rows = blamed.properties.iter().map(|line| line.row(&now));
        table::print(page, ["REVISION", "WHO", "WHEN", "PROPERTY", "VALUE"], rows);
    })
}

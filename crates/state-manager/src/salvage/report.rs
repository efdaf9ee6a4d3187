//! What a salvage did, for its caller, and as the message of the revision that records it.

use serde::Serialize;
use state_core::{Lineage, RevisionId, Serial, StackName};

/// What a salvage did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SalvageReport {
    /// The folder of the files that were moved aside, below the store; none if nothing was moved.
    pub aside: Option<String>,
    /// Files outside of the folders of stacks that were moved aside.
    pub moved: Vec<String>,
    /// The stacks that an interrupted salvage or restore had rebuilt, and that this one put in place.
    pub finished: Vec<Lineage>,
    /// The stacks that were damaged or orphaned.
    pub stacks: Vec<SalvagedStack>,
}

/// What a salvage did with one stack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SalvagedStack {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Name of the stack; none if it is unknown.
    pub name: Option<StackName>,
    /// Whether the stack was rebuilt from its intact parts.
    pub rebuilt: bool,
    /// Whether its name leads to it again.
    pub attached: bool,
    /// The revision whose state was restored; none if the stack has no revision, or wasn't rebuilt.
    pub restored: Option<RevisionId>,
    /// The revision that records the salvage.
    pub revision: Option<RevisionId>,
    /// Revisions that the rebuilt history doesn't contain, and that can be read from the files that were moved aside.
    pub aside: Vec<RevisionId>,
    /// Revisions that can't be read any more, as far as their ids are known.
    pub lost: Vec<RevisionId>,
    /// The highest serial that this client remembered, if it is higher than that of the restored revision: later revisions
    /// are lost, unless `aside` lists them.
    pub remembered: Option<Serial>,
    /// Why the stack wasn't salvaged, and what a person must supply; none if it was.
    pub obstacle: Option<String>,
}

impl SalvagedStack {
    /// The report of a stack that was found damaged or orphaned, before anything is done.
    pub(super) fn found(lineage: Lineage, name: Option<StackName>) -> Self {
        Self {
            lineage,
            name,
            rebuilt: false,
            attached: false,
            restored: None,
            revision: None,
            aside: Vec::new(),
            lost: Vec::new(),
            remembered: None,
            obstacle: None,
        }
    }

    /// The report of a stack that can't be salvaged.
    pub(super) fn refused(lineage: Lineage, name: Option<StackName>, obstacle: String) -> Self {
        Self {
            obstacle: Some(obstacle),
            ..Self::found(lineage, name)
        }
    }
}

/// Why a revision records a salvage.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    /// Its files were damaged.
    Damage,
    /// It was attached under another name.
    NewName,
    /// No name led to it.
    LostName,
}

/// The message of the revision that records a salvage.
pub(super) fn message(report: &SalvagedStack, cause: Cause, aside: &str) -> String {
    let (action, kept) = match cause {
        Cause::Damage => {
            let restored = report.restored.as_ref();
            let up_to = restored.map(|restored| format!(" up to revision {restored}"));
            let action = format!(
                "salvaged: rebuilt from damaged files{}",
                up_to.unwrap_or_default()
            );
            (action, format!("; damaged files are in {aside}"))
        }
        Cause::NewName => (
            "salvaged: attached under another name".to_owned(),
            format!("; its former files are in {aside}"),
        ),
        Cause::LostName => ("salvaged: its name leads to it again".to_owned(), String::new()),
    };
    let later = report
        .remembered
        .map(|serial| format!("; later revisions, up to serial {serial}, are lost"));
    let lost = match (later, report.lost.len()) {
        (Some(later), _) => later,
        (None, 0) => String::new(),
        (None, 1) => "; 1 revision is lost".to_owned(),
        (None, lost) => format!("; {lost} revisions are lost"),
    };
    format!("{action}{lost}{kept}")
}

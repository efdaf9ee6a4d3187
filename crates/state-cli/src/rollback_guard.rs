//! Going back across a move: what a person must know before they say `--force`.

use crate::context::Context;
use crate::error::CliError;
use serde::Serialize;
use state_core::moves::StackMove;
use state_core::{RevisionId, State};
use state_manager::{CrossedMove, Stack};

/// How many entries a preview names.
const NAMED: usize = 20;

/// A move that would be taken back on this side only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CrossedView {
    /// The revision that made it.
    revision: RevisionId,
    /// `out`: the entries would come back, and may live in the other stack. `in`: they would go, and no stack has them.
    direction: &'static str,
    other_stack: String,
    entries: Vec<String>,
}

impl CrossedView {
    fn new(crossed: CrossedMove) -> Option<Self> {
        let (direction, peer) = match crossed.moved {
            StackMove::Out(peer) => ("out", peer),
            StackMove::In(peer) => ("in", peer),
            _ => return None,
        };
        Some(Self {
            revision: crossed.revision,
            direction,
            other_stack: peer.name.to_string(),
            entries: crossed.entries.iter().map(ToString::to_string).collect(),
        })
    }

    /// What is wrong with it.
    fn message(&self) -> String {
        let moved = crate::marks::count(self.entries.len(), "entry", "entries");
        let (other, revision) = (&self.other_stack, &self.revision);
        if self.direction == "out" {
            return format!("{moved} moved to stack {other} with revision {revision} and would be in both");
        }
        format!("{moved} moved here from stack {other} with revision {revision} and would be in none")
    }
}

/// The moves that going back would take back on this side only, shown at once; nothing is shown with `--json`.
pub(crate) async fn look(
    context: &Context,
    stack: &Stack,
    now: &State,
    to: &RevisionId,
) -> Result<Vec<CrossedView>, CliError> {
    let crossed = stack.crossed_moves(now, to).await?;
    let views: Vec<_> = crossed.into_iter().filter_map(CrossedView::new).collect();
    context.output.announce(|page| {
        for view in &views {
            page.warning(&view.message());
            for entry in view.entries.iter().take(NAMED) {
                page.line(format_args!("    {entry}"));
            }
            if view.entries.len() > NAMED {
                page.line(format_args!("    … and {} more", view.entries.len() - NAMED));
            }
        }
    });
    Ok(views)
}

/// Refuses to go back across a move that nobody forced.
pub(crate) fn refuse(object: &str, crossed: &[CrossedView], force: bool) -> Result<(), CliError> {
    let Some(first) = crossed.first().filter(|_| !force) else {
        return Ok(());
    };
    let message = format!("{}; nothing was changed", first.message());
    Err(CliError::refused(object, &message)
        .with_hint("move them back first: `statectl mv ADDR... --to-stack STACK`; or say `--force`"))
}

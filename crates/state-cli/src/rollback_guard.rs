//! Guards `rollback` and `undo` against reverting a move between stacks in one of the two stacks only.

use crate::context::Context;
use crate::error::CliError;
use serde::Serialize;
use state_core::RevisionId;
use state_core::moves::StackMove;
use state_manager::{CrossedMove, View};

/// How many resources a preview names.
const NAMED: usize = 20;

/// A move between stacks that a rollback would revert in this stack only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CrossedView {
    /// The revision in which this stack recorded the move.
    revision: RevisionId,
    /// `out`: the resources would return here while they may also be in the other stack. `in`: the resources would be in
    /// no stack.
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

    /// Why reverting the move in this stack only is a problem.
    fn message(&self) -> String {
        let moved = crate::marks::count(self.entries.len(), "resource", "resources");
        let (other, revision) = (&self.other_stack, &self.revision);
        if self.direction == "out" {
            return format!(
                "{moved} moved to stack {other} in revision {revision} and would be in both stacks"
            );
        }
        format!("{moved} moved here from stack {other} in revision {revision} and would be in no stack")
    }
}

/// Finds the moves that a rollback would revert in this stack only, and shows them on stderr unless `--json` is given.
pub(crate) async fn inspect(
    context: &Context,
    view: &View,
    to: &RevisionId,
) -> Result<Vec<CrossedView>, CliError> {
    let crossed = view.crossed_moves(to).await?;
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

/// Refuses a rollback across a move unless `force` is set.
pub(crate) fn refuse(object: &str, crossed: &[CrossedView], force: bool) -> Result<(), CliError> {
    let Some(first) = crossed.first().filter(|_| !force) else {
        return Ok(());
    };
    let message = format!("cannot revert a move between stacks: {}", first.message());
    Err(CliError::refused(object, &message).with_hint(
        "move the resources back first with `statectl mv ADDR... --to-stack STACK`, or use `--force`",
    ))
}

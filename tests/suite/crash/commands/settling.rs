//! The checks after a command was interrupted: the store can be read, its state is the one before or after the command,
//! and the command can be completed.

use super::bench::{Bench, Ended};
use super::projection::Projection;
use super::rows::{Between, Policy, Row};

/// Number of commands of hints that a person follows before the test gives up.
const HINTS: usize = 3;

/// The states of a row around its command.
pub(super) struct Bounds {
    before: Projection,
    after: Projection,
}

impl Bounds {
    /// Runs the command of the row without interference.
    pub(super) fn of(bench: &Bench, row: &Row) -> Self {
        bench.reset();
        let read =
            || Projection::read(bench, row).unwrap_or_else(|error| panic!("{}: {error}", row.arguments));
        let before = read().without_open_update();
        let ended = bench.run(row);
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", row.arguments);
        Self {
            before,
            after: read(),
        }
    }

    /// Checks the store after the command was interrupted. Returns how many hints had to be followed.
    ///
    /// # Errors
    /// Describes the first rule that is broken.
    pub(super) fn check(
        &self,
        bench: &Bench,
        row: &Row,
        policy: Policy,
        ended: &Ended,
    ) -> Result<usize, String> {
        let is_secret = policy == Policy::Sealed && !row.was_plain;
        no_leak(bench, is_secret)?;
        let seen = Projection::read(bench, row)?.without_open_update();
        let is_done = seen == self.after;
        if !is_done && seen != self.before {
            self.check_between(row, &seen)?;
        }
        let is_acknowledged = ended.code == Some(0) || ended.code.is_none() && !ended.stdout.is_empty();
        if is_acknowledged && !seen.has_state_of(&self.after) {
            return Err(format!(
                "an acknowledged command is undone:{}",
                self.after.difference(&seen)
            ));
        }
        let hints = match is_done && !row.repeats {
            true => 0,
            false => repeat(bench, row)?,
        };
        no_leak(bench, is_secret)?;
        let last = Projection::read(bench, row)?;
        let is_complete = match row.between {
            Between::Steps => last.has_state_of(&self.after),
            _ => last.clone().without_interrupted() == self.after.clone().without_interrupted(),
        };
        if !is_complete {
            return Err(format!(
                "the completed command has another effect:{}",
                self.after.difference(&last)
            ));
        }
        for name in last.stacks.keys() {
            let verified = bench.statectl(&format!("verify --deep --stack {name}"));
            if verified.code != Some(0) {
                return Err(format!("stack {name} is damaged: {verified:?}"));
            }
        }
        Ok(hints)
    }

    fn check_between(&self, row: &Row, seen: &Projection) -> Result<(), String> {
        let was_empty = self.before.stacks.is_empty();
        let is_allowed = match row.between {
            Between::Nothing => false,
            Between::EmptyStack => was_empty && seen.stacks.values().all(|stack| stack.is_empty()),
            Between::Steps => self.is_partial(seen),
        };
        match is_allowed {
            true => Ok(()),
            false => Err(format!(
                "the state is neither the one before nor the one after the command: before and then:{}\nafter and then:{}",
                self.before.difference(seen),
                self.after.difference(seen)
            )),
        }
    }

    /// Whether the command may have been interrupted between two of its steps.
    fn is_partial(&self, seen: &Projection) -> bool {
        let addresses = |of: &Projection, name: &String| {
            let stack = of.stacks.get(name);
            stack.map(|stack| stack.addresses.clone()).unwrap_or_default()
        };
        let is_kept = self.before.stacks.iter().all(|(name, before)| {
            let history = seen.stacks.get(name).map(|stack| &stack.history);
            history.is_some_and(|history| history.ends_with(&before.history))
        });
        is_kept
            && seen.stacks.iter().all(|(name, stack)| {
                let (before, after) = (addresses(&self.before, name), addresses(&self.after, name));
                let present = &stack.addresses;
                present.is_superset(&before.intersection(&after).cloned().collect())
                    && present.is_subset(&before.union(&after).cloned().collect())
            })
    }
}

fn no_leak(bench: &Bench, is_secret: bool) -> Result<(), String> {
    match bench.leak().filter(|_| is_secret) {
        Some(path) => Err(format!("{} contains the secret", path.display())),
        None => Ok(()),
    }
}

/// Repeats the command, and follows the hints of its errors. Returns how many hints were followed.
fn repeat(bench: &Bench, row: &Row) -> Result<usize, String> {
    for hints in 0..=HINTS {
        let ended = bench.run(row);
        if ended.code == Some(0) {
            return Ok(hints);
        }
        let hint = ended.stderr.lines().find(|line| line.contains("hint: "));
        let pasted = hint.and_then(|hint| hint.split('`').nth(1));
        let Some(pasted) = pasted.filter(|pasted| pasted.starts_with("statectl ")) else {
            return Err(format!("the command can't be completed: {ended:?}"));
        };
        let followed = bench.paste(pasted);
        if followed.code != Some(0) {
            return Err(format!("the hint of {ended:?} fails: {followed:?}"));
        }
    }
    Err(format!("the command still fails after {HINTS} hints"))
}

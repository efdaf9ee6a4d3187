//! Flags of `up`, `preview`, `refresh` and `destroy`, and their conversion to options of the engine.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::glob;
use crate::render::time::friendly_duration;
use state_core::{Address, MutationId, State, nearest};
use state_engine::RunOptions;
use state_engine::settle::{Decision, Decisions};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Limits of a run: its targets, its concurrency and its timeouts.
#[derive(Debug, clap::Args)]
pub(super) struct ScopeArgs {
    /// Take over a stack of another program or tool
    ///
    /// Needed for a stack that another program made, or that holds a state imported from another tool. `up` records its
    /// program as the owner of the stack, so that later runs don't need the flag.
    #[arg(long)]
    pub(super) adopt: bool,
    /// Limit the run to this resource; repeatable
    ///
    /// With `*` (any text) or `?` (one character), limits the run to all matching resources.
    #[arg(long, value_name = "ADDR")]
    target: Vec<String>,
    /// Include the resources that depend on a target
    #[arg(long, requires = "target")]
    target_dependents: bool,
    /// Exclude this resource, or all that match; repeatable
    #[arg(long, value_name = "ADDR")]
    exclude: Vec<String>,
    /// Maximum number of concurrent steps
    #[arg(long, value_name = "N", default_value = "10")]
    parallel: NonZeroUsize,
    /// After a failure, continue with independent steps
    #[arg(long)]
    continue_on_error: bool,
    /// Time limit for each provider call: `30s`, `5m`
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = friendly_duration)]
    pub(super) timeout: Duration,
}

/// Outcomes of pending operations, as the user gives them.
#[derive(Debug, Default, clap::Args)]
pub(super) struct PendingAnswers {
    /// Discard pending operations as not done
    ///
    /// The providers are not asked.
    #[arg(long)]
    clear_pending: bool,
    /// Resolve the pending operation at ADDR as done; repeatable
    ///
    /// ID is the id of the resource, with which the provider reads it.
    #[arg(long, value_name = "ADDR=ID", value_parser = answer)]
    import_pending: Vec<String>,
}

/// Checks the form `ADDR=ID`. Addresses and ids may contain `=`: the answer is split later, at the end of the address
/// of a pending operation.
fn answer(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        Some((address, id)) if !address.is_empty() && !id.is_empty() => Ok(text.to_owned()),
        _ => Err("expected `ADDR=ID`"),
    }
}

/// Splits an answer into the pending operation and the id.
fn match_answer<'a>(
    text: &'a str,
    pending: impl Iterator<Item = (MutationId, &'a Address)>,
) -> Result<(MutationId, &'a str), CliError> {
    let id = |address: &Address| text.strip_prefix(address.as_str())?.strip_prefix('=');
    let mut fitting: Vec<_> = pending
        .filter_map(|(operation, address)| Some((operation, address, id(address)?)))
        .collect();
    // If an address has several pending operations, the answer is for the first one.
    let mut seen = BTreeSet::new();
    fitting.retain(|(_, address, _)| seen.insert(*address));
    let refused = |code, message| {
        CliError::new(code, format!("--import-pending {text}"), message)
            .with_hint("list pending operations with `statectl pending list`")
    };
    match &*fitting {
        [] => Err(refused(
            ExitCode::NotFound,
            "no pending operation at this address",
        )),
        [(_, _, "")] => Err(refused(ExitCode::Usage, "the id is empty")),
        [(operation, _, id)] => Ok((*operation, id)),
        _ => Err(refused(
            ExitCode::Usage,
            "the address is ambiguous: several pending operations match",
        )),
    }
}

impl PendingAnswers {
    /// The decision for each pending operation.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an answer without a pending operation.
    fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let mut decisions = Decisions::default();
        if self.clear_pending {
            if state.pending().next().is_none() {
                return Err(CliError::not_found(
                    "--clear-pending",
                    "no operations are pending",
                ));
            }
            decisions.otherwise = Decision::NotDone;
        }
        for text in &self.import_pending {
            let pending = state.pending();
            let pending = pending.map(|operation| (operation.id, &operation.target.address));
            let (operation, id) = match_answer(text, pending)?;
            let exists = Decision::Exists { id: id.to_owned() };
            decisions.by_id.insert(operation, exists);
        }
        Ok(decisions)
    }
}

/// All flags of a run.
#[derive(Clone, Debug)]
pub(super) struct Flags<'a> {
    /// The command's name for the lock and the history.
    pub(super) command: &'static str,
    pub(super) bounds: &'a ScopeArgs,
    pub(super) replace: &'a [String],
    pub(super) refresh: bool,
    pub(super) message: Option<&'a str>,
    pub(super) answers: Option<&'a PendingAnswers>,
}

impl<'a> Flags<'a> {
    pub(super) const fn new(command: &'static str, bounds: &'a ScopeArgs) -> Self {
        Self {
            command,
            bounds,
            replace: &[],
            refresh: false,
            message: None,
            answers: None,
        }
    }

    /// The user's decisions about pending operations. For all others, the engine asks the providers.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an answer without a pending operation.
    pub(super) fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let decisions = self.answers.map(|answers| answers.decisions(state));
        Ok(decisions.transpose()?.unwrap_or_default())
    }

    /// Whether the user gave the outcome of any pending operation.
    pub(super) fn answers_something(&self) -> bool {
        self.answers
            .is_some_and(|answers| answers.clear_pending || !answers.import_pending.is_empty())
    }

    /// The options of the run. `known` are all addresses in the stack and in the program.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an address or pattern that matches nothing.
    pub(super) fn options(&self, known: &BTreeSet<Address>) -> Result<RunOptions, CliError> {
        let mut options = RunOptions::default();
        options.parallel = self.bounds.parallel.get();
        options.continue_on_error = self.bounds.continue_on_error;
        options.timeout = Some(self.bounds.timeout);
        options.refresh = self.refresh;
        options.target_dependents = self.bounds.target_dependents;
        options.targets = resolve_patterns(&self.bounds.target, known)?;
        options.exclude = resolve_patterns(&self.bounds.exclude, known)?;
        options.replace = resolve_patterns(self.replace, known)?;
        Ok(options)
    }
}

/// The addresses that match the patterns. Each pattern must match at least one address.
fn resolve_patterns(patterns: &[String], known: &BTreeSet<Address>) -> Result<BTreeSet<Address>, CliError> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let before = found.len();
        let fits = |address: &&Address| match pattern.contains(['*', '?']) {
            true => glob::matches(pattern, address.as_str()),
            false => address.as_str() == pattern,
        };
        let fitting: Vec<&Address> = known.iter().filter(fits).collect();
        found.extend(fitting.iter().copied().cloned());
        if found.len() == before && fitting.is_empty() {
            return Err(no_match(pattern, known));
        }
    }
    Ok(found)
}

fn no_match(pattern: &str, known: &BTreeSet<Address>) -> CliError {
    let hint = match nearest(pattern, known.iter().map(Address::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "list all resources with `statectl list`".to_owned(),
    };
    let message = "not in the stack or the program";
    CliError::not_found(format!("resource {pattern}"), message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::{answer, match_answer, resolve_patterns};
    use crate::exit::ExitCode;
    use state_core::{Address, MutationId};
    use std::collections::BTreeSet;

    fn addresses(names: &[&str]) -> BTreeSet<Address> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn wanted(patterns: &[&str]) -> Result<BTreeSet<Address>, ExitCode> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        resolve_patterns(&patterns, &addresses(&["page", "pages.a", "pages.b"])).map_err(|error| error.code)
    }

    #[test]
    fn pattern_matches_all_and_name_matches_itself() {
        assert_eq!(wanted(&["pages.*"]), Ok(addresses(&["pages.a", "pages.b"])));
        assert_eq!(wanted(&["page", "page"]), Ok(addresses(&["page"])));
        assert_eq!(wanted(&[]), Ok(BTreeSet::new()));
    }

    #[test]
    fn pattern_without_match_is_refused() {
        for nothing in [&["pag"][..], &["x*"], &["page", "other"]] {
            assert_eq!(wanted(nothing), Err(ExitCode::NotFound), "{nothing:?}");
        }
    }

    #[test]
    fn answer_is_split_at_the_end_of_a_pending_address() {
        let pending: Vec<(MutationId, Address)> = ["a", "x=y", "x=y=z", "a"]
            .iter()
            .zip(1..)
            .map(|(name, id)| (MutationId::from_bits([id; 16]), name.parse().unwrap()))
            .collect();
        let of = |text: &str| {
            let pending = pending.iter().map(|(id, address)| (*id, address));
            let found = match_answer(text, pending).map_err(|error| error.code)?;
            Ok((found.0, found.1.to_owned()))
        };
        let is = |operation: u8, id: &str| Ok((MutationId::from_bits([operation; 16]), id.to_owned()));
        assert_eq!(of("a=b=c="), is(1, "b=c="));
        assert_eq!(of("x=y=1"), is(2, "1"));
        assert_eq!(of("x=1"), Err(ExitCode::NotFound));
        assert_eq!(of("x=y="), Err(ExitCode::Usage));
        assert_eq!(of("x=y=z=1"), Err(ExitCode::Usage), "two addresses fit");
        for malformed in ["a", "a=", "=1"] {
            assert!(answer(malformed).is_err(), "{malformed}");
        }
    }
}

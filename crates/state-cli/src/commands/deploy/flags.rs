//! How a run is done, as the command line says it.

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

/// What a run may touch, and how fast it goes. Addresses may hold `*` (any text) and `?` (one character).
#[derive(Debug, clap::Args)]
pub(super) struct Bounds {
    /// Touch only this, or with `*` (any text) and `?` (one character) all that match. May be repeated.
    #[arg(long, value_name = "ADDR")]
    target: Vec<String>,
    /// What depends on a target is a target too.
    #[arg(long, requires = "target")]
    target_dependents: bool,
    /// Don't touch this, or all that match. May be repeated.
    #[arg(long, value_name = "ADDR")]
    exclude: Vec<String>,
    /// How many steps may be under way at once.
    #[arg(long, value_name = "N", default_value = "10")]
    parallel: NonZeroUsize,
    /// A step that fails doesn't stop those that don't depend on it.
    #[arg(long)]
    continue_on_error: bool,
    /// How long one call of a provider may take: `30s`, `5m`.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = friendly_duration)]
    pub(super) timeout: Duration,
}

/// What somebody knows of operations that are pending.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Answers {
    /// What is pending never happened: it is forgotten, and no provider is asked.
    #[arg(long)]
    clear_pending: bool,
    /// What is pending at ADDR happened: the object has this id, and its provider is asked for it. May be repeated.
    #[arg(long, value_name = "ADDR=ID", value_parser = answer)]
    import_pending: Vec<String>,
}

/// Addresses and ids may hold `=` too: where the one ends is told by what is pending.
fn answer(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        Some((address, id)) if !address.is_empty() && !id.is_empty() => Ok(text.to_owned()),
        _ => Err("it is written `ADDR=ID`"),
    }
}

/// The operation that an answer is about, and the id that it gives.
fn answered<'a>(
    text: &'a str,
    pending: impl Iterator<Item = (MutationId, &'a Address)>,
) -> Result<(MutationId, &'a str), CliError> {
    let id = |address: &Address| text.strip_prefix(address.as_str())?.strip_prefix('=');
    let mut fitting: Vec<_> = pending
        .filter_map(|(operation, address)| Some((operation, address, id(address)?)))
        .collect();
    // Of an address with several operations it is the first that is meant.
    let mut seen = BTreeSet::new();
    fitting.retain(|(_, address, _)| seen.insert(*address));
    let refused = |code, message| {
        CliError::new(code, format!("--import-pending {text}"), message)
            .with_hint("`statectl pending list` lists what is pending")
    };
    match &*fitting {
        [] => Err(refused(ExitCode::NotFound, "nothing of it is pending")),
        [(_, _, "")] => Err(refused(ExitCode::Usage, "the id is empty")),
        [(operation, _, id)] => Ok((*operation, id)),
        _ => Err(refused(
            ExitCode::Usage,
            "it fits several addresses that are pending",
        )),
    }
}

impl Answers {
    /// Which decision each pending operation gets.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an answer that is about nothing that is pending.
    fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let mut decisions = Decisions::default();
        if self.clear_pending {
            if state.pending().next().is_none() {
                return Err(CliError::not_found("--clear-pending", "nothing is pending"));
            }
            decisions.otherwise = Decision::NotDone;
        }
        for text in &self.import_pending {
            let pending = state.pending();
            let pending = pending.map(|operation| (operation.id, &operation.target.address));
            let (operation, id) = answered(text, pending)?;
            let exists = Decision::Exists { id: id.to_owned() };
            decisions.by_id.insert(operation, exists);
        }
        Ok(decisions)
    }
}

/// All that a command says of its run.
#[derive(Clone, Debug)]
pub(super) struct Flags<'a> {
    /// The command, as the lock and the history call it.
    pub(super) command: &'static str,
    pub(super) bounds: &'a Bounds,
    pub(super) replace: &'a [String],
    pub(super) refresh: bool,
    pub(super) message: Option<&'a str>,
    pub(super) answers: Option<&'a Answers>,
}

impl<'a> Flags<'a> {
    pub(super) const fn new(command: &'static str, bounds: &'a Bounds) -> Self {
        Self {
            command,
            bounds,
            replace: &[],
            refresh: false,
            message: None,
            answers: None,
        }
    }

    /// What is decided of operations that are pending; else their providers are asked.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an answer that is about nothing that is pending.
    pub(super) fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let decisions = self.answers.map(|answers| answers.decisions(state));
        Ok(decisions.transpose()?.unwrap_or_default())
    }

    /// Whether somebody says what became of operations that are pending.
    pub(super) fn answers_something(&self) -> bool {
        self.answers
            .is_some_and(|answers| answers.clear_pending || !answers.import_pending.is_empty())
    }

    /// The options of the run. `known` are the addresses that there are, in the stack or in the program.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for one that names nothing.
    pub(super) fn options(&self, known: &BTreeSet<Address>) -> Result<RunOptions, CliError> {
        let mut options = RunOptions::default();
        options.parallel = self.bounds.parallel.get();
        options.continue_on_error = self.bounds.continue_on_error;
        options.timeout = Some(self.bounds.timeout);
        options.refresh = self.refresh;
        options.target_dependents = self.bounds.target_dependents;
        options.targets = named(&self.bounds.target, known)?;
        options.exclude = named(&self.bounds.exclude, known)?;
        options.replace = named(self.replace, known)?;
        Ok(options)
    }
}

/// The addresses that are meant: each pattern means at least one.
fn named(patterns: &[String], known: &BTreeSet<Address>) -> Result<BTreeSet<Address>, CliError> {
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
            return Err(nothing_named(pattern, known));
        }
    }
    Ok(found)
}

fn nothing_named(pattern: &str, known: &BTreeSet<Address>) -> CliError {
    let hint = match nearest(pattern, known.iter().map(Address::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`statectl list` lists what is recorded".to_owned(),
    };
    let message = "nothing in the stack or the program is called so";
    CliError::not_found(format!("entry {pattern}"), message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::{answer, answered, named};
    use crate::exit::ExitCode;
    use state_core::{Address, MutationId};
    use std::collections::BTreeSet;

    fn addresses(names: &[&str]) -> BTreeSet<Address> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn wanted(patterns: &[&str]) -> Result<BTreeSet<Address>, ExitCode> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        named(&patterns, &addresses(&["page", "pages.a", "pages.b"])).map_err(|error| error.code)
    }

    #[test]
    fn a_pattern_names_all_that_match_and_a_name_itself() {
        assert_eq!(wanted(&["pages.*"]), Ok(addresses(&["pages.a", "pages.b"])));
        assert_eq!(wanted(&["page", "page"]), Ok(addresses(&["page"])));
        assert_eq!(wanted(&[]), Ok(BTreeSet::new()));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for nothing in [&["pag"][..], &["x*"], &["page", "other"]] {
            assert_eq!(wanted(nothing), Err(ExitCode::NotFound), "{nothing:?}");
        }
    }

    #[test]
    fn an_answer_ends_its_address_where_a_pending_one_ends() {
        let pending: Vec<(MutationId, Address)> = ["a", "x=y", "x=y=z", "a"]
            .iter()
            .zip(1..)
            .map(|(name, id)| (MutationId::from_bits([id; 16]), name.parse().unwrap()))
            .collect();
        let of = |text: &str| {
            let pending = pending.iter().map(|(id, address)| (*id, address));
            let found = answered(text, pending).map_err(|error| error.code)?;
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

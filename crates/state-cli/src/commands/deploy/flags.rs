//! How a run is done, as the command line says it.

use crate::args::duration;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::glob;
use state_core::{Address, State, nearest};
use state_engine::RunOptions;
use state_engine::settle::{Decision, Decisions};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

/// What a run may touch. Addresses may hold `*` (any text) and `?` (one character).
#[derive(Debug, Default, clap::Args)]
pub(super) struct Scope {
    /// Touch only this, or with `*` (any text) and `?` (one character) all that match. May be repeated.
    #[arg(long, value_name = "ADDR")]
    target: Vec<String>,
    /// What depends on a target is a target too.
    #[arg(long, requires = "target")]
    target_dependents: bool,
    /// Don't touch this, or all that match. May be repeated.
    #[arg(long, value_name = "ADDR")]
    exclude: Vec<String>,
}

/// How fast, and how far.
#[derive(Debug, clap::Args)]
pub(super) struct Pace {
    /// How many steps may be under way at once.
    #[arg(long, value_name = "N", default_value = "10")]
    parallel: NonZeroUsize,
    /// A step that fails doesn't stop those that don't depend on it.
    #[arg(long)]
    continue_on_error: bool,
    /// How long one call of a provider may take: `30s`, `5m`.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    timeout: Duration,
}

/// What somebody knows of operations that are pending.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Answers {
    /// What is pending never happened: it is forgotten, and no provider is asked.
    #[arg(long)]
    clear_pending: bool,
    /// What is pending at ADDR happened: the object has this id, and its provider is asked for it. May be repeated.
    #[arg(long, value_name = "ADDR=ID", value_parser = answer)]
    import_pending: Vec<(Address, String)>,
}

fn answer(text: &str) -> Result<(Address, String), String> {
    let (address, id) = text.rsplit_once('=').ok_or("it is written `ADDR=ID`")?;
    let address = address
        .parse()
        .map_err(|error: state_core::Error| error.to_string())?;
    Ok((address, id.to_owned()))
}

impl Answers {
    /// Which decision each pending operation gets.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an address at which nothing is pending.
    fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let mut decisions = Decisions::default();
        if self.clear_pending {
            decisions.otherwise = Decision::NotDone;
        }
        for (address, id) in &self.import_pending {
            let mut pending = state.pending();
            let Some(operation) = pending.find(|operation| operation.target.address == *address) else {
                let message = "nothing of it is pending";
                return Err(
                    CliError::new(ExitCode::NotFound, format!("entry {address}"), message)
                        .with_hint("`statectl pending list` lists what is"),
                );
            };
            let exists = Decision::Exists { id: id.clone() };
            decisions.by_id.insert(operation.id, exists);
        }
        Ok(decisions)
    }
}

/// All that a command says of its run.
#[derive(Clone, Debug)]
pub(super) struct Flags<'a> {
    /// The command, as the lock and the history call it.
    pub(super) command: &'static str,
    pub(super) scope: &'a Scope,
    pub(super) pace: &'a Pace,
    pub(super) replace: &'a [String],
    pub(super) refresh: bool,
    pub(super) message: Option<&'a str>,
    pub(super) answers: Option<&'a Answers>,
}

impl<'a> Flags<'a> {
    pub(super) const fn new(command: &'static str, scope: &'a Scope, pace: &'a Pace) -> Self {
        Self {
            command,
            scope,
            pace,
            replace: &[],
            refresh: false,
            message: None,
            answers: None,
        }
    }

    /// What is decided of operations that are pending; else their providers are asked.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for an address at which nothing is pending.
    pub(super) fn decisions(&self, state: &State) -> Result<Decisions, CliError> {
        let decisions = self.answers.map(|answers| answers.decisions(state));
        Ok(decisions.transpose()?.unwrap_or_default())
    }

    /// The options of the run. `known` are the addresses that there are, in the stack or in the program.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] for one that names nothing.
    pub(super) fn options(&self, known: &BTreeSet<Address>) -> Result<RunOptions, CliError> {
        let mut options = RunOptions::default();
        options.parallel = self.pace.parallel.get();
        options.continue_on_error = self.pace.continue_on_error;
        options.timeout = Some(self.pace.timeout);
        options.refresh = self.refresh;
        options.target_dependents = self.scope.target_dependents;
        options.targets = named(&self.scope.target, known)?;
        options.exclude = named(&self.scope.exclude, known)?;
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
    CliError::new(ExitCode::NotFound, format!("entry {pattern}"), message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::named;
    use crate::exit::ExitCode;
    use state_core::Address;
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
}

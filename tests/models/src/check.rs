//! Runs the checker: proves that all rules hold in the whole space, or that a flaw breaks a rule.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::fmt::Debug;
use std::hash::Hash;

/// Environment variable with a factor for the size of the searches; an integer of at least 1.
pub const SCALE: &str = "STATE_TEST_SCALE";

/// Returns the first value in a usual run, and the second one in a run with larger bounds (`STATE_TEST_SCALE` above 1).
pub fn bound<T>(usual: T, large: T) -> T {
    let scale = std::env::var(SCALE)
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    match scale.unwrap_or(1) > 1 {
        true => large,
        false => usual,
    }
}

/// A model whose states the checker can visit.
pub trait Checkable:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<M> Checkable for M where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// A rule of a model: what must hold in every state, or what must happen in some state.
pub trait Rule<M: Model>: Copy {
    /// The rule in words.
    fn sentence(self) -> &'static str;

    /// The rule as the checker evaluates it.
    fn property(self) -> Property<M>;
}

/// Visits all states of a model; returns how many there are.
///
/// # Panics
/// Panics with the shortest trace if a state breaks a rule, if what must happen in some state never does, or if there are
/// fewer states than `at_least`: then the bounds exclude what the model is about.
#[expect(
    clippy::print_stdout,
    reason = "the number of states is the result of a search"
)]
pub fn prove<M: Checkable>(model: M, at_least: usize) -> usize {
    let shown = format!("{model:?}");
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!("{states} states, depth {}: {shown}", checker.max_depth());
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (stateright::Expectation::Sometimes, None) => {
                panic!("never happens: {}\n  {shown}", property.name)
            }
            (stateright::Expectation::Always | stateright::Expectation::Eventually, Some(path)) => {
                panic!("broken: {}\n  {shown}\n{}", property.name, trace(path.into_vec()))
            }
            _ => {}
        }
    }
    assert!(
        states >= at_least,
        "{states} states are fewer than {at_least}: {shown}"
    );
    states
}

/// Searches a model with a flaw until a state breaks a rule; returns the length of the trace.
///
/// # Panics
/// Panics if no state breaks a rule, or if the first rule that a state breaks isn't `rule`.
#[expect(clippy::print_stdout, reason = "the trace is the result of a search")]
pub fn refute<M: Checkable>(model: M, rule: impl Rule<M>) -> usize {
    let shown = format!("{model:?}");
    let name = rule.sentence();
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyOf([name].into()))
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(name) else {
        panic!("no counterexample in {states} states for: {name}\n  {shown}");
    };
    let steps = path.into_vec();
    println!(
        "broken after {} steps ({states} states): {name}\n  {shown}\n{}",
        steps.len() - 1,
        trace(steps.clone())
    );
    steps.len() - 1
}

/// Formats the steps of a trace, one a line, with the state after the last one.
fn trace<S: Debug, A: Debug>(steps: Vec<(S, Option<A>)>) -> String {
    let mut text = String::new();
    let mut last = None;
    for (state, action) in steps {
        if let Some(action) = action {
            text.push_str(&format!("    {action:?}\n"));
        }
        last = Some(state);
    }
    format!("{text}    {last:?}")
}

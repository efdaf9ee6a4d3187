//! Finds the kind of name that completes the next word of a command line, such as a stack, an address or a revision.
//! The kind follows from the value names of the clap arguments. All shells therefore behave alike, and new commands
//! need no further code.

use super::Words;
use clap::{Arg, ArgAction, Command, ValueEnum};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The query of the scripts: `statectl __words -- WORD...`, with the words between the program's name and the cursor.
const QUESTION: [&str; 2] = ["__words", "--"];

/// The flags that select the store and the stack to query.
const PLACES: [&str; 4] = ["backend", "backend_config", "profile", "stack"];

/// Rewrites a script's query into the arguments of `__words`: the kind of names, and the flags that select the store.
/// Other arguments are returned unchanged.
pub(crate) fn understood(command: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let asks = |(argument, word): (&OsString, &str)| argument == word;
    if arguments.len() < 3 || !arguments[1..3].iter().zip(QUESTION).all(asks) {
        return arguments;
    }
    let mut line = Line::new(command.clone());
    for word in &arguments[3..] {
        line.take(&word.to_string_lossy());
    }
    let kind = line.meaning().unwrap_or(Words::Nothing).to_possible_value();
    let kind = kind.map(|kind| OsString::from(kind.get_name()));
    let program = arguments.into_iter().take(1);
    program
        .chain(line.places.into_iter().map(OsString::from))
        .chain([OsString::from(QUESTION[0])])
        .chain(kind)
        .collect()
}

/// An incomplete command line, parsed word by word. Unknown words are skipped without an error.
struct Line {
    command: Command,
    /// The number of positional arguments so far.
    given: usize,
    /// The flag whose value is the next word.
    awaits: Option<Arg>,
    /// Whether `--` was read, after which no word is a flag.
    only_values: bool,
    places: Vec<String>,
}

impl Line {
    fn new(mut command: Command) -> Self {
        command.build();
        Self {
            command,
            given: 0,
            awaits: None,
            only_values: false,
            places: Vec::new(),
        }
    }

    fn take(&mut self, word: &str) {
        if let Some(flag) = self.awaits.take() {
            self.keep_place(&flag, word);
        } else if self.only_values {
            self.given += 1;
        } else if word == "--" {
            self.only_values = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            self.flag(value, |arg| is_called(arg, name));
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().last()) {
            self.flag(None, |arg| arg.get_short() == Some(short));
        } else if let Some(below) = self.command.find_subcommand(word).filter(|_| self.given == 0) {
            self.command = below.clone();
        } else {
            self.given += 1;
        }
    }

    fn flag(&mut self, value: Option<&str>, is_it: impl Fn(&Arg) -> bool) {
        let Some(flag) = self.command.get_arguments().find(|arg| is_it(arg)).cloned() else {
            return;
        };
        match value {
            Some(value) => self.keep_place(&flag, value),
            None if takes_value(&flag) => self.awaits = Some(flag),
            None => {}
        }
    }

    fn keep_place(&mut self, flag: &Arg, value: &str) {
        if let (true, Some(long)) = (PLACES.contains(&flag.get_id().as_str()), flag.get_long()) {
            self.places.push(format!("--{long}={value}"));
        }
    }

    /// The kind of name of the next word; none if its values don't come from the store.
    fn meaning(&self) -> Option<Words> {
        let last = || {
            self.command
                .get_positionals()
                .last()
                .filter(|arg| takes_many(arg))
        };
        let next = || self.command.get_positionals().nth(self.given).or_else(last);
        meaning(self.awaits.as_ref().or_else(next)?)
    }
}

/// The kind of name that an argument takes, by its value name.
fn meaning(arg: &Arg) -> Option<Words> {
    match arg.get_value_names()?.first()?.as_str() {
        "STACK" => Some(Words::Stacks),
        "ADDR" | "SRC" | "DST" | "GLOB" => Some(Words::Addresses),
        "REV" | "OLD" | "NEW" => Some(Words::Revisions),
        "OUTPUT" => Some(Words::Outputs),
        "OPERATION" => Some(Words::Operations),
        "KIND" => Some(Words::Kinds),
        _ => None,
    }
}

/// The long flags of all commands that take such names.
pub(super) fn flags(command: &Command) -> BTreeSet<String> {
    let mut flags = BTreeSet::new();
    let mut commands = vec![command.clone()];
    while let Some(command) = commands.pop() {
        for arg in command.get_arguments().filter(|arg| meaning(arg).is_some()) {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            flags.extend(arg.get_long().into_iter().chain(aliases).map(str::to_owned));
        }
        commands.extend(command.get_subcommands().cloned());
    }
    flags
}

fn is_called(arg: &Arg, long: &str) -> bool {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long() == Some(long) || aliases.contains(&long)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use crate::commands::Cli;
    use clap::CommandFactory;
    use std::ffi::OsString;

    fn understood(arguments: Vec<OsString>) -> Vec<OsString> {
        super::understood(&Cli::command(), arguments)
    }

    fn asked(words: &[&str]) -> String {
        let question = ["statectl", "__words", "--"].iter().chain(words);
        let answer = understood(question.map(OsString::from).collect());
        let words: Vec<_> = answer[1..].iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").replace("__words ", "")
    }

    #[test]
    fn value_names_select_the_completed_names() {
        for (line, meaning) in [
            ("", "nothing"),
            ("history", "addresses"),
            ("show", "addresses"),
            ("show a.b", "nothing"),
            ("rm a.b --cascade", "addresses"),
            ("mv", "addresses"),
            ("ls", "addresses"),
            ("show a.b --at", "revisions"),
            ("export --rev", "revisions"),
            ("export --at", "revisions"),
            ("rollback -m text", "revisions"),
            ("rollback -m", "nothing"),
            ("diff 3-aa", "revisions"),
            ("stack rm", "stacks"),
            ("stack rename a", "nothing"),
            ("graph --around", "addresses"),
            ("outputs", "outputs"),
            ("pending resolve", "operations"),
            ("kinds", "kinds"),
            ("schema", "nothing"),
            ("show --", "addresses"),
            ("--json show", "addresses"),
            ("no-such --flag", "nothing"),
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(asked(&words), meaning, "{line}");
        }
    }

    #[test]
    fn completion_uses_store_and_stack_of_the_line() {
        assert_eq!(
            asked(&["--stack", "a/b", "show", "--backend=file:///x"]),
            "--stack=a/b --backend=file:///x addresses"
        );
        assert_eq!(asked(&["list", "--stack"]), "stacks");
    }

    #[test]
    fn other_arguments_stay_unchanged() {
        let plain: Vec<OsString> = ["statectl", "show", "--", "__words"].map(OsString::from).into();
        assert_eq!(understood(plain.clone()), plain);
    }
}

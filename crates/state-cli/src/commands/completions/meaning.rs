//! What the word at the end of a command line would name: a stack, an address, a revision. Told from what the
//! command line calls its arguments, so that all shells ask alike and a new command is completed by itself.

use super::Words;
use clap::{Arg, ArgAction, Command, ValueEnum};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// How the scripts ask: `statectl __words -- WORD...`, with the words between the program's name and the cursor.
const QUESTION: [&str; 2] = ["__words", "--"];

/// The flags that say where to look.
const PLACES: [&str; 4] = ["backend", "backend_config", "profile", "stack"];

/// Turns a script's question into the arguments that answer it: which kind of names, in which store. Other
/// arguments stay as they are.
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

/// A command line, read word by word without a complaint.
struct Line {
    command: Command,
    /// How many positional arguments were given to it.
    given: usize,
    /// The flag whose value comes next.
    awaits: Option<Arg>,
    /// After `--` there are no flags.
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

    /// What the next word names, if only the store knows.
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

/// What the value of an argument names.
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

/// The long flags of all commands whose values are such names.
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
    fn what_a_word_names_is_told_from_what_its_argument_is_called() {
        for (line, meaning) in [
            ("", "nothing"),
            ("history", "nothing"),
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
    fn names_come_from_the_store_and_stack_that_the_line_says() {
        assert_eq!(
            asked(&["--stack", "a/b", "show", "--backend=file:///x"]),
            "--stack=a/b --backend=file:///x addresses"
        );
        assert_eq!(asked(&["list", "--stack"]), "stacks");
    }

    #[test]
    fn other_arguments_stay_as_they_are() {
        let plain: Vec<OsString> = ["statectl", "show", "--", "__words"].map(OsString::from).into();
        assert_eq!(understood(plain.clone()), plain);
    }
}

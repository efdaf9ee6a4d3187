//! The commands that are compared: pairs of both programs, and our own commands beside another one of ours.

use std::path::Path;

use super::state::{address, free};

/// One of the compared programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Ours,
    Terraform,
}

impl Program {
    /// The folder in which the program runs.
    pub(super) const fn folder(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Terraform => "terraform",
        }
    }
}

/// The arguments of a command in a round, for a state of a size, with the file that an import reads.
type Arguments = fn(round: usize, size: usize, file: &Path) -> Vec<String>;

/// A command of both programs.
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) ours: Arguments,
    pub(super) terraform: Arguments,
    /// Whether the command reads a new state from a file.
    pub(super) needs_file: bool,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// The commands that both programs have.
///
/// Only resources on which nothing depends are edited: Terraform would leave dangling dependencies, and `statectl` refuses
/// to. The import comes last: it restores all resources, so each round begins with the same ones.
pub(super) const PAIRS: [Pair; 8] = [
    Pair {
        name: "version",
        ours: |_, _, _| words(["--version"]),
        terraform: |_, _, _| words(["version"]),
        needs_file: false,
    },
    Pair {
        name: "list",
        ours: |_, _, _| words(["list"]),
        terraform: |_, _, _| words(["state", "list"]),
        needs_file: false,
    },
    Pair {
        name: "show",
        ours: |round, size, _| words(["show", &address(size / 2 + round)]),
        terraform: |round, size, _| words(["state", "show", "-no-color", &address(size / 2 + round)]),
        needs_file: false,
    },
    Pair {
        name: "taint",
        ours: |round, size, _| words(["--yes", "taint", &free(size, round, 0)]),
        terraform: |round, size, _| words(["taint", &free(size, round, 0)]),
        needs_file: false,
    },
    Pair {
        name: "mv",
        ours: |round, size, _| {
            let from = free(size, round, 1);
            words(["--yes", "mv", &from, &format!("{from}_moved")])
        },
        terraform: |round, size, _| {
            let from = free(size, round, 1);
            words(["state", "mv", &from, &format!("{from}_moved")])
        },
        needs_file: false,
    },
    Pair {
        name: "rm",
        ours: |round, size, _| words(["--yes", "rm", &free(size, round, 2)]),
        terraform: |round, size, _| words(["state", "rm", &free(size, round, 2)]),
        needs_file: false,
    },
    Pair {
        name: "export",
        ours: |_, _, _| words(["--show-secrets", "export"]),
        terraform: |_, _, _| words(["state", "pull"]),
        needs_file: false,
    },
    Pair {
        name: "import",
        ours: |_, _, file| words(["--yes", "import", &file.display().to_string()]),
        terraform: |_, _, file| words(["state", "push", &file.display().to_string()]),
        needs_file: true,
    },
];

/// A command of ours with a limit relative to another one.
pub(super) struct OwnCommand {
    pub(super) name: &'static str,
    /// The pair of commands after which this command runs.
    pub(super) after: &'static str,
    /// The command with which this one is compared.
    pub(super) beside: &'static str,
    /// How many times the other command's CPU time this one may need.
    pub(super) limit: f64,
    pub(super) arguments: &'static [&'static str],
}

/// Our commands without a counterpart in Terraform. Each rollback is followed by one that reverts it, so that both programs
/// have the same resources again.
pub(super) const OWN: [OwnCommand; 6] = [
    OwnCommand {
        name: "history",
        after: "rm",
        beside: "list",
        limit: 2.0,
        arguments: &["history"],
    },
    OwnCommand {
        name: "diff of a removal",
        after: "rm",
        beside: "list",
        limit: 2.0,
        arguments: &["diff"],
    },
    OwnCommand {
        name: "rollback of a removal",
        after: "rm",
        beside: "taint",
        limit: 3.0,
        arguments: &["--yes", "rollback", "@-"],
    },
    OwnCommand {
        name: "rollback of that rollback",
        after: "rm",
        beside: "taint",
        limit: 3.0,
        arguments: &["--yes", "rollback", "@-"],
    },
    OwnCommand {
        name: "rollback of an import",
        after: "import",
        beside: "taint",
        limit: 3.0,
        arguments: &["--yes", "rollback", "@-"],
    },
    OwnCommand {
        name: "rollback to the import",
        after: "import",
        beside: "taint",
        limit: 3.0,
        arguments: &["--yes", "rollback", "@-"],
    },
];

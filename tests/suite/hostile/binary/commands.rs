//! The commands of `statectl` that run under attack.

use super::scenario::{OTHER, STACK};

/// A recipient that commands add.
pub(super) const COLLEAGUE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// The name that `Rename` gives to the stack.
pub(super) const RENAMED: &str = "tests/renamed";

/// The file in a client's folder that `Import` imports: an export of the last stage.
pub(super) const EXPORTED: &str = "exported.json";

/// A command of `statectl` that each schedule of the test may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Command {
    List,
    Show,
    /// Shows a resource as it was in an earlier revision.
    ShowEarlier,
    Export,
    Outputs,
    History,
    Blame,
    /// Shows the changes between the last two revisions, with their values.
    Diff,
    Logs,
    Verify,
    ListStacks,
    ListRecipients,
    Up,
    Destroy,
    Import,
    Taint,
    Rollback,
    Undo,
    AddRecipient,
    Rekey,
    /// Changes the policy from `all` to `sensitive`.
    Encrypt,
    Rename,
    Remove,
    /// Moves a resource to the other stack.
    Move,
    Collect,
    /// Copies the stack to a store in the client's folder.
    Copy,
    Doctor,
}

impl Command {
    pub(super) const ALL: [Self; 27] = [
        Self::List,
        Self::Show,
        Self::ShowEarlier,
        Self::Export,
        Self::Outputs,
        Self::History,
        Self::Blame,
        Self::Diff,
        Self::Logs,
        Self::Verify,
        Self::ListStacks,
        Self::ListRecipients,
        Self::Up,
        Self::Destroy,
        Self::Import,
        Self::Taint,
        Self::Rollback,
        Self::Undo,
        Self::AddRecipient,
        Self::Rekey,
        Self::Encrypt,
        Self::Rename,
        Self::Remove,
        Self::Move,
        Self::Collect,
        Self::Copy,
        Self::Doctor,
    ];

    /// The arguments, without the global ones. `Copy` also needs the URL of the store.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => &["list", "--long"],
            Self::Show => &["show", "note", "--show-secrets"],
            Self::ShowEarlier => &["show", "note", "--show-secrets", "--at", "2"],
            Self::Export => &["export", "--format", "native", "--show-secrets"],
            Self::Outputs => &["outputs", "--show-secrets"],
            Self::History => &["history"],
            Self::Blame => &["blame", "note", "--show-secrets"],
            Self::Diff => &["diff", "--show-secrets"],
            Self::Logs => &["logs", "--show-secrets"],
            Self::Verify => &["verify", "--deep"],
            Self::ListStacks => &["stack", "ls"],
            Self::ListRecipients => &["recipients", "list"],
            Self::Up => &[
                "up",
                "state.yaml",
                "--config",
                "token=@token",
                "--config",
                "tag=under-attack",
            ],
            Self::Destroy => &[
                "destroy",
                "state.yaml",
                "--config",
                "token=@token",
                "--config",
                "tag=3",
            ],
            Self::Import => &["import", EXPORTED, "--force"],
            Self::Taint => &["taint", "note"],
            Self::Rollback => &["rollback", "2"],
            Self::Undo => &["undo"],
            Self::AddRecipient => &["recipients", "add", COLLEAGUE],
            Self::Rekey => &["rekey"],
            Self::Encrypt => &["encrypt", "--policy", "sensitive"],
            Self::Rename => &["stack", "rename", STACK, RENAMED],
            Self::Remove => &["stack", "rm", STACK, "--force"],
            Self::Move => &["mv", "note", "--to-stack", OTHER],
            Self::Copy => &["copy"],
            Self::Collect => &["gc", "--keep-days", "0", "--keep-revisions", "2", "--grace", "0s"],
            Self::Doctor => &["doctor"],
        }
    }

    /// Whether the command only reads. All changes of the store in its run are then the attacker's.
    pub(super) const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::List
                | Self::Show
                | Self::ShowEarlier
                | Self::Export
                | Self::Outputs
                | Self::History
                | Self::Blame
                | Self::Diff
                | Self::Logs
                | Self::Verify
                | Self::ListStacks
                | Self::ListRecipients
                | Self::Copy
        )
    }

    /// Whether the command prints sensitive values because its arguments ask for them.
    pub(super) fn shows_secrets(self) -> bool {
        self.arguments().contains(&"--show-secrets")
    }

    /// Whether the command reads the other stack too.
    pub(super) const fn reads_other(self) -> bool {
        matches!(self, Self::Move) || self.is_about_the_store()
    }

    /// Whether the command reads all stacks of the store rather than the one under attack.
    pub(super) const fn is_about_the_store(self) -> bool {
        matches!(self, Self::ListStacks | Self::Doctor)
    }
}

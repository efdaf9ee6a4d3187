//! The commands of `statectl` that run under attack.

/// A recipient that commands add.
pub(super) const COLLEAGUE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

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
    Verify,
    ListStacks,
    ListRecipients,
    Up,
    Taint,
    Rollback,
    Undo,
    AddRecipient,
    Rekey,
    Collect,
    Doctor,
}

impl Command {
    pub(super) const ALL: [Self; 18] = [
        Self::List,
        Self::Show,
        Self::ShowEarlier,
        Self::Export,
        Self::Outputs,
        Self::History,
        Self::Blame,
        Self::Verify,
        Self::ListStacks,
        Self::ListRecipients,
        Self::Up,
        Self::Taint,
        Self::Rollback,
        Self::Undo,
        Self::AddRecipient,
        Self::Rekey,
        Self::Collect,
        Self::Doctor,
    ];

    /// The arguments, without the global ones.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => &["list", "--long"],
            Self::Show => &["show", "note", "--show-secrets"],
            Self::ShowEarlier => &["show", "note", "--show-secrets", "--at", "2"],
            Self::Export => &["export", "--format", "native", "--show-secrets"],
            Self::Outputs => &["outputs", "--show-secrets"],
            Self::History => &["history"],
            Self::Blame => &["blame", "note", "--show-secrets"],
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
            Self::Taint => &["taint", "note"],
            Self::Rollback => &["rollback", "2"],
            Self::Undo => &["undo"],
            Self::AddRecipient => &["recipients", "add", COLLEAGUE],
            Self::Rekey => &["rekey"],
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
                | Self::Verify
                | Self::ListStacks
                | Self::ListRecipients
        )
    }

    /// Whether the command prints sensitive values because its arguments ask for them.
    pub(super) fn shows_secrets(self) -> bool {
        self.arguments().contains(&"--show-secrets")
    }

    /// Whether the command reads all stacks of the store rather than the one under attack.
    pub(super) const fn is_about_the_store(self) -> bool {
        matches!(self, Self::ListStacks | Self::Doctor)
    }
}

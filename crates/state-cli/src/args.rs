//! The command line: global flags, and one variant a command.

use crate::commands;
use crate::exit;
use clap::{Args, Parser, Subcommand, ValueEnum};
use state_core::StackName;
use state_manager::BackendRegistry;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Look at, repair and move infrastructure state.
#[derive(Debug, Parser)]
#[command(
    name = "statectl",
    version,
    about,
    after_help = exit::TABLE,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The store: `file://PATH`, or a path. Default: the nearest `.state` here or in a parent folder.
    #[arg(long, global = true, env = "STATECTL_BACKEND", value_name = "URL")]
    pub(crate) backend: Option<String>,
    /// A value of the store's configuration, as `statectl backends` lists them. It counts before one in the URL.
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = BackendConfig::parse)]
    pub(crate) backend_config: Vec<BackendConfig>,
    /// The stack: `NAME` or `PROJECT/NAME`. Not needed where there is one only.
    #[arg(long, global = true, env = "STATECTL_STACK", value_name = "STACK")]
    pub(crate) stack: Option<StackName>,
    /// The profile of the configuration files to use.
    #[arg(long, global = true, env = "STATECTL_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// A file with identities that open sealed stacks. Default: `statectl/identity.txt` among the user's settings.
    #[arg(
        long,
        global = true,
        env = "STATECTL_IDENTITY",
        value_name = "FILE",
        value_delimiter = ':'
    )]
    pub(crate) identity: Vec<PathBuf>,
    /// Work as the holder of this client lock, which `lock acquire` took.
    #[arg(long, global = true, env = "STATECTL_LOCK_ID", value_name = "ID")]
    pub(crate) lock_id: Option<String>,
    /// Print JSON: `{kind, format-version, data}`, errors included.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Don't ask: yes to every question.
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
    /// Print sensitive values as they are.
    #[arg(long, global = true)]
    pub(crate) show_secrets: bool,
    /// How long to wait for a stack that another holds: `30s`, `5m`. Without it, not at all.
    #[arg(long, global = true, env = "STATECTL_LOCK_TIMEOUT", value_name = "DURATION", value_parser = duration)]
    pub(crate) lock_timeout: Option<Duration>,
    /// When to use colours. `auto` honours NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Say on stderr which store and stack are used. May be repeated.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// A value of a store's configuration. Perhaps it is secret: only the schema knows.
#[derive(Clone)]
pub(crate) struct BackendConfig {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl BackendConfig {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (key, value) = text.split_once('=').ok_or("it is written `key=value`")?;
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Debug for BackendConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.key)
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal.
    Auto,
    /// Even when the output goes to a file or a pipe.
    Always,
    /// Not at all.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the kinds of stores, and what can be configured.
    Backends,
    /// Make a store.
    Init(commands::init::Args),
    /// List, make, remove and rename stacks.
    #[command(subcommand)]
    Stack(commands::stack::Command),
    Up(commands::deploy::Up),
    Preview(commands::deploy::Preview),
    Refresh(commands::deploy::Refresh),
    Destroy(commands::deploy::Destroy),
    Kinds(commands::kinds::Args),
    Import(commands::import::Args),
    Export(commands::export::Args),
    #[command(visible_alias = "ls")]
    List(commands::list::Args),
    Show(commands::show::Args),
    Outputs(commands::outputs::Args),
    #[command(visible_alias = "log")]
    History(commands::history::Args),
    Logs(commands::logs::Args),
    Diff(commands::diff::Args),
    Blame(commands::blame::Args),
    Find(commands::find::Args),
    Graph(commands::graph::Args),
    Rollback(commands::rollback::Args),
    /// Seal a stack that is plain, or seal more of it.
    Encrypt(commands::encrypt::Args),
    /// List, add and remove those who can open a sealed stack.
    #[command(subcommand)]
    Recipients(commands::recipients::Command),
    /// Give a sealed stack a new data key.
    Rekey(commands::rekey::Args),
    /// Seal and open single values with the stack's key.
    #[command(subcommand)]
    Secret(commands::secret::Command),
    Trust(commands::trust::Args),
    /// Show whom others must add so that you can open their stacks; make an identity.
    Identity(commands::identity::Args),
    Gc(commands::gc::Args),
    Doctor(commands::doctor::Args),
    Copy(commands::copy::Args),
    Login(commands::login::LoginArgs),
    /// Forget the store that `login` remembered, and the credentials that it keeps for you.
    Logout,
    /// Say who a lock would name.
    Whoami,
    Verify(commands::verify::Args),
    /// Settle what was begun and never ended.
    #[command(subcommand)]
    Pending(commands::pending::Command),
    /// See who holds the stack; hold it across commands; take a lock from a holder that is gone.
    #[command(subcommand)]
    Lock(commands::lock::Command),
    /// See which settings are in force.
    #[command(subcommand)]
    Config(commands::config::Command),
    Completions(commands::completions::Args),
    #[command(name = "__words", hide = true)]
    Words(commands::completions::WordsArgs),
    Schema(commands::schema::Args),
    /// Change the record by hand.
    #[command(flatten)]
    Surgery(commands::surgery::Command),
}

/// Whether `--json` is among the arguments: asked before they are understood, so that usage errors are JSON too.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

impl GlobalArgs {
    /// How the user calls this very store and stack: what a hint's command begins with.
    pub(crate) fn invocation(&self) -> String {
        let mut words = String::from("statectl");
        let stack = self.stack.as_ref().map(StackName::short);
        let registry = BackendRegistry::default();
        let backend = self.backend.as_ref().map(|url| registry.shown(url));
        for (flag, value) in [("--backend", &backend), ("--stack", &stack)] {
            if let Some(value) = value {
                words.push_str(&format!(" {flag} {}", quoted(value)));
            }
        }
        words
    }
}

/// A duration as people write it: `30s`, `1m 30s`, `500ms`, `PT5M`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "a duration is a number with a unit, such as `30s` or `5m`".to_owned())
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, duration, quoted};
    use clap::CommandFactory;
    use std::time::Duration;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("5m", 300), ("1m 30s", 90), ("PT5M", 300)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "5", "soon", "-5s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_are_quoted_for_a_shell_only_when_they_need_it() {
        assert_eq!(quoted("file://.state"), "file://.state");
        assert_eq!(quoted("a[\"b\"]"), "'a[\"b\"]'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}

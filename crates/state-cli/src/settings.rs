//! Settings: global flags, environment and files, resolved once, each with its source.
//!
//! A flag overrides the environment, which overrides the files. In the files, a value of the selected profile overrides
//! a value outside of profiles, and within both the project's file overrides the user's file. A stack from a file is not
//! combined with a store from a flag or the environment: it is a stack of another store.

pub(crate) mod file;

use crate::error::CliError;
use crate::render::time::friendly_duration;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
pub(crate) use file::url_of;
use file::{File, PROJECT_FILE, Profile};
use state_core::StackName;
use state_core::mask::Mask;
use state_manager::BackendRegistry;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The text in the place of a secret.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// The member that a masked document begins with.
pub(crate) const MASKED: &str = "masked-by-statectl";

/// Hides secrets.
pub(crate) const HIDE: Mask = Mask::hide(HIDDEN);

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Settings {
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
    #[arg(long, global = true, env = "STATECTL_LOCK_TIMEOUT", value_name = "DURATION", value_parser = friendly_duration)]
    pub(crate) lock_timeout: Option<Duration>,
    /// When to use colours. `auto` honours NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Say on stderr which store and stack are used. May be repeated.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Where the values come from.
    #[arg(skip)]
    pub(crate) sources: Sources,
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

/// The source of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    #[default]
    Default,
    /// A flag on the command line.
    Flag,
    /// The environment.
    Environment,
    /// A file, perhaps a profile in it.
    File {
        /// Its path.
        path: String,
        /// The profile.
        profile: Option<String>,
    },
}

/// A value and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

/// The sources of the values that files can set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) profile: Setting,
    pub(crate) backend: Setting,
    pub(crate) stack: Setting,
    /// Paths of the files that were read, the nearest first.
    pub(crate) files: Vec<String>,
}

impl Setting {
    fn of_file(file: &File, profile: Option<&str>, value: String) -> Self {
        Self {
            value: Some(value),
            origin: Origin::File {
                path: file.path.clone(),
                profile: profile.map(str::to_owned),
            },
        }
    }
}

impl Settings {
    /// Reads the files, and fills in the values that neither a flag nor the environment set.
    ///
    /// # Errors
    /// [`Usage`](crate::ExitCode::Usage) for a file with a mistake and for a profile that is in no file.
    pub(crate) fn resolve(&mut self, matches: &ArgMatches) -> Result<(), CliError> {
        let files = file::read_all(&file::here()?)?;
        let given = |id: &str, value: Option<String>| Setting {
            origin: match matches.value_source(id) {
                Some(ValueSource::CommandLine) => Origin::Flag,
                Some(ValueSource::EnvVariable) => Origin::Environment,
                _ => Origin::Default,
            },
            value,
        };
        let mut sources = Sources {
            profile: given("profile", self.profile.clone()),
            backend: given("backend", self.backend.clone()),
            stack: given("stack", self.stack.as_ref().map(StackName::short)),
            files: files.iter().map(|file| file.path.clone()).collect(),
        };
        sources.choose(&files)?;
        self.backend.clone_from(&sources.backend.value);
        if let (None, Some(name)) = (&self.stack, &sources.stack.value) {
            let parsed = name.parse().map_err(|error| {
                let object = match &sources.stack.origin {
                    Origin::File { path, .. } => path.clone(),
                    _ => "the configuration".to_owned(),
                };
                CliError::usage(object, &format!("{error}"))
            });
            self.stack = Some(parsed?);
        }
        self.sources = sources;
        Ok(())
    }

    /// How values are shown: without secrets, unless `--show-secrets` is given.
    pub(crate) const fn mask(&self) -> Mask {
        if self.show_secrets {
            Mask::reveal(HIDDEN)
        } else {
            HIDE
        }
    }

    /// How the user calls this very store and stack: what a hint's command begins with.
    pub(crate) fn invocation(&self) -> String {
        let mut words = String::from("statectl");
        let stack = self.stack.as_ref().map(StackName::short);
        let backend = self.backend.as_ref().map(|url| shown(url));
        for (flag, value) in [("--backend", &backend), ("--stack", &stack)] {
            if let Some(value) = value {
                words.push_str(&format!(" {flag} {}", quoted(value)));
            }
        }
        words
    }
}

impl Sources {
    fn choose(&mut self, files: &[File]) -> Result<(), CliError> {
        if self.profile.value.is_none() {
            let named = files.iter().find_map(|file| Some((file, file.profile.clone()?)));
            if let Some((file, profile)) = named {
                self.profile = Setting::of_file(file, None, profile);
            }
        }
        let profile = self.profile.value.as_deref();
        if let Some(name) = profile {
            require_profile(files, name)?;
        }
        if self.backend.value.is_none() {
            self.backend = pick(files, profile, |settings| &settings.backend);
            if self.stack.value.is_none() {
                self.stack = pick(files, profile, |settings| &settings.stack);
            }
        }
        Ok(())
    }
}

/// The value of the profile in the nearest file that has one, else of the nearest file outside of profiles.
fn pick(files: &[File], profile: Option<&str>, field: impl Fn(&Profile) -> &Option<String>) -> Setting {
    let inside = files.iter().find_map(|file| {
        let value = field(file.profiles.get(profile?)?).clone()?;
        Some(Setting::of_file(file, profile, value))
    });
    let outside = |file: &File| Some(Setting::of_file(file, None, field(&file.outside).clone()?));
    inside
        .or_else(|| files.iter().find_map(outside))
        .unwrap_or_default()
}

fn require_profile(files: &[File], name: &str) -> Result<(), CliError> {
    if files.iter().any(|file| file.profiles.contains_key(name)) {
        return Ok(());
    }
    let mut known: Vec<_> = files.iter().flat_map(|file| file.profiles.keys()).collect();
    known.sort();
    known.dedup();
    let hint = if known.is_empty() {
        format!("write it into `{PROJECT_FILE}`: [profiles.{name}]")
    } else {
        let known: Vec<_> = known.into_iter().map(String::as_str).collect();
        format!("the profiles are: {}", known.join(", "))
    };
    Err(CliError::usage(format!("profile {name}"), "no configuration file has it").with_hint(hint))
}

/// The URL without its secrets: for messages and reports.
pub(crate) fn shown(url: &str) -> String {
    BackendRegistry::default().shown(url)
}

/// Whether `--json` is among the arguments: asked before they are understood, so that usage errors are JSON too.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
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
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell_only_when_they_need_it() {
        assert_eq!(quoted("file://.state"), "file://.state");
        assert_eq!(quoted("a[\"b\"]"), "'a[\"b\"]'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}

//! The settings in effect: global flags, environment and configuration files, resolved once, each with its source.
//!
//! A flag overrides the environment, which overrides the files. In the files, a value of the selected profile overrides
//! a value outside of profiles. At each of these two levels, the project's file overrides the user's file. A stack from
//! a file is ignored if the store comes from a flag or the environment, because the file names a stack of another
//! store.

pub(crate) mod file;

use crate::error::CliError;
pub(crate) use crate::invocation::{Invocation, quoted};
use crate::render::time::friendly_duration;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
pub(crate) use file::url_of;
use file::{File, PROJECT_FILE, Profile};
use state_core::mask::Mask;
use state_core::{KeyId, RevisionId, StackName};
use state_manager::{BackendRegistry, Expectations};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The placeholder for a secret.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// The member at the beginning of a masked export, by which `import` recognizes it.
pub(crate) const MASKED: &str = "masked-by-statectl";

/// The mask that hides secrets.
pub(crate) const HIDE: Mask = Mask::hide(HIDDEN);

/// The global flags of all commands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Settings {
    /// URL or path of the store [default: nearest `.state` folder]
    ///
    /// For example `file://PATH` or `s3://BUCKET/PREFIX`; `statectl backends` lists all types. The default is `.state` in
    /// the current folder or its nearest parent folder.
    #[arg(long, global = true, env = "STATECTL_BACKEND", value_name = "URL")]
    pub(crate) backend: Option<String>,
    /// Set a configuration key of the store; repeatable
    ///
    /// Overrides the same key in the URL. `statectl backends` lists all keys.
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = clap::value_parser!(BackendConfig))]
    pub(crate) backend_config: Vec<BackendConfig>,
    /// Stack: `NAME` or `PROJECT/NAME` [default: the only stack]
    #[arg(long, global = true, env = "STATECTL_STACK", value_name = "STACK")]
    pub(crate) stack: Option<StackName>,
    /// Use this profile of the configuration files
    #[arg(long, global = true, env = "STATECTL_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// File with identities that decrypt stacks; repeatable
    ///
    /// The default is `statectl/identity.txt` in the user's configuration folder.
    #[arg(
        long,
        global = true,
        env = "STATECTL_IDENTITY",
        value_name = "FILE",
        value_delimiter = ':'
    )]
    pub(crate) identity: Vec<PathBuf>,
    /// Use the client lock with this id, taken by `lock acquire`
    #[arg(long, global = true, env = "STATECTL_LOCK_ID", value_name = "ID")]
    pub(crate) lock_id: Option<String>,
    /// Require this data key; repeatable
    ///
    /// For clients without memory, such as CI jobs: a stack that isn't sealed with one of these keys is refused with exit
    /// code 12, and no stack is created. `statectl trust` prints the key of a stack.
    #[arg(
        long,
        global = true,
        env = "STATECTL_EXPECT_KEY",
        value_name = "KEY-ID",
        value_delimiter = ','
    )]
    pub(crate) expect_key: Vec<KeyId>,
    /// Require this revision or one made on top of it
    ///
    /// For clients without memory: a stack whose history doesn't contain this revision is refused with exit code 13, and no
    /// stack is created. A store that was taken back to a state after this revision isn't noticed.
    #[arg(
        long,
        global = true,
        env = "STATECTL_EXPECT_REVISION",
        value_name = "REVISION"
    )]
    pub(crate) expect_revision: Option<RevisionId>,
    /// Print JSON documents, also for errors
    ///
    /// Each document has the form `{kind, format-version, data}`; see `statectl schema`.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Answer yes to every question
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
    /// Print sensitive values in plaintext
    #[arg(long, global = true)]
    pub(crate) show_secrets: bool,
    /// Wait for a locked stack: `30s`, `5m` [default: don't wait]
    #[arg(long, global = true, env = "STATECTL_LOCK_TIMEOUT", value_name = "DURATION", value_parser = friendly_duration)]
    pub(crate) lock_timeout: Option<Duration>,
    /// When to use colours
    ///
    /// `auto` honours NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Print the store and the stack in use on stderr
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The sources of the values that files can set.
    #[arg(skip)]
    pub(crate) sources: Sources,
}

/// A value of a store's configuration. The value may be secret: only the store's configuration schema defines which
/// keys are.
#[derive(Clone)]
pub(crate) struct BackendConfig {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl From<String> for BackendConfig {
    /// Accepts every text: an error here would make clap print the text, which may be a secret. A text without `=` has no
    /// key; [`Settings::resolve`] refuses it.
    fn from(text: String) -> Self {
        let (key, value) = text.split_once('=').unwrap_or(("", &text));
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
        }
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
    /// On a terminal only, not in pipes
    Auto,
    /// Always, also in files and pipes
    Always,
    /// Never, not even on a terminal
    Never,
}

/// The source of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The default value, because the setting is not set.
    #[default]
    Default,
    /// A flag on the command line.
    Flag,
    /// A variable of the environment.
    Environment,
    /// A configuration file, either one of its profiles or the part outside of profiles.
    File {
        /// Path of the file.
        path: String,
        /// Name of the profile; none for the part outside of profiles.
        profile: Option<String>,
        /// Whether this is the project's file, which may come from anyone.
        is_project: bool,
    },
}

/// The value of a setting and its source.
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
    /// Parameters that decide which server receives the requests, as the user's own file names them.
    pub(crate) own_redirects: BTreeSet<(&'static str, String)>,
    /// The error for the project's file, if that isn't trusted. It ends the commands that use a store.
    pub(crate) refused: Option<Box<CliError>>,
}

impl Setting {
    fn of_file(file: &File, profile: Option<&str>, value: String) -> Self {
        Self {
            value: Some(value),
            origin: Origin::File {
                path: file.path.clone(),
                profile: profile.map(str::to_owned),
                is_project: file.is_project,
            },
        }
    }
}

impl Settings {
    /// Reads the files, and fills in the values that neither a flag nor the environment set.
    ///
    /// # Errors
    /// [`Usage`](crate::ExitCode::Usage) for an invalid file, for a profile that is in no file, and for a configuration value
    /// without a key.
    pub(crate) fn resolve(&mut self, matches: &ArgMatches) -> Result<(), CliError> {
        if self.backend_config.iter().any(|config| config.key.is_empty()) {
            return Err(CliError::usage("--backend-config", "expected `KEY=VALUE`")
                .with_hint("list all keys with `statectl backends`"));
        }
        let (files, refused) = file::read_all(&file::here()?)?;
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
            own_redirects: files.iter().flat_map(File::own_redirects).collect(),
            refused: refused.map(Box::new),
        };
        sources.choose(&files)?;
        self.backend.clone_from(&sources.backend.value);
        if let (None, Some(name)) = (&self.stack, &sources.stack.value) {
            let parsed = name.parse().map_err(|error| {
                let object = match &sources.stack.origin {
                    Origin::File { path, .. } => path.clone(),
                    _ => "configuration".to_owned(),
                };
                CliError::usage(object, &format!("{error}"))
            });
            self.stack = Some(parsed?);
        }
        self.sources = sources;
        Ok(())
    }

    /// The demands on the stack that the user named.
    pub(crate) fn expectations(&self) -> Expectations {
        Expectations::new(self.expect_key.clone(), self.expect_revision.clone())
    }

    /// The mask for values: hides secrets unless `--show-secrets` is given.
    pub(crate) const fn mask(&self) -> Mask {
        if self.show_secrets {
            Mask::reveal(HIDDEN)
        } else {
            HIDE
        }
    }

    /// The flags for the same store and stack, for commands in hints and warnings.
    pub(crate) fn invocation(&self) -> Invocation {
        let backend = self.backend.as_ref().map(|url| shown(url));
        let stack = self.stack.as_ref().map(StackName::short);
        Invocation::new(backend.as_deref(), stack.as_deref())
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
        // The profile may be in a file that isn't trusted and was left out.
        if let Some(name) = profile.filter(|_| self.refused.is_none()) {
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

/// The value in the selected profile of the nearest file, else outside of profiles in the nearest file.
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
        format!("add a table `[profiles.{name}]` to `{PROJECT_FILE}`")
    } else {
        let known: Vec<_> = known.into_iter().map(String::as_str).collect();
        format!("existing profiles: {}", known.join(", "))
    };
    Err(CliError::usage(format!("profile {name}"), "not found in any configuration file").with_hint(hint))
}

/// The URL without its secrets, for messages and reports.
pub(crate) fn shown(url: &str) -> String {
    BackendRegistry::default().shown(url)
}

/// Whether `--json` is among the arguments. Checked before parsing, so that usage errors are printed as JSON too.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

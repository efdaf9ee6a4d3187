//! Settings from files: `statectl.toml`, found upward from the working folder, and the user's own.
//!
//! ```toml
//! profile = "dev"                      # what counts unless `--profile` says otherwise
//! backend = "file://.state"            # a relative path is relative to this file
//!
//! [profiles.production]
//! backend = "file:///srv/state"
//! stack = "shop/production"
//! ```
//!
//! A flag wins over the environment, which wins over the files. Of the files the chosen profile wins over what stands
//! outside of profiles, and within both the project's file over the user's. A stack from a file is not used with a
//! store that a flag or the environment named: it is a stack of another store.

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::store::url_of;
use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Deserialize;
use state_core::StackName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file of a project.
const PROJECT_FILE: &str = "statectl.toml";

/// The file of a user, in the folder for such files.
const USER_FILE: &str = "statectl/config.toml";

/// Where a value comes from.
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

/// What a command works with, by flag, environment and files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) profile: Setting,
    pub(crate) backend: Setting,
    pub(crate) stack: Setting,
    /// The files that were read, the nearest first.
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    profile: Option<String>,
    backend: Option<String>,
    stack: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Profile {
    backend: Option<String>,
    stack: Option<String>,
}

struct File {
    path: String,
    folder: PathBuf,
    document: Document,
}

impl Settings {
    /// Reads the files and fills in what neither a flag nor the environment set.
    ///
    /// # Errors
    /// [`ExitCode::Usage`] for a file that isn't understood and for a profile that no file has.
    pub(crate) fn fill(global: &mut GlobalArgs, matches: &ArgMatches) -> Result<Self, CliError> {
        let here = std::env::current_dir().map_err(|source| CliError::io("the working folder", &source))?;
        let files = read_files(&here)?;
        let given = |id: &str, value: Option<String>| Setting {
            origin: match matches.value_source(id) {
                Some(ValueSource::CommandLine) => Origin::Flag,
                Some(ValueSource::EnvVariable) => Origin::Environment,
                _ => Origin::Default,
            },
            value,
        };
        let mut settings = Self {
            profile: given("profile", global.profile.clone()),
            backend: given("backend", global.backend.clone()),
            stack: given("stack", global.stack.as_ref().map(StackName::short)),
            files: files.iter().map(|file| file.path.clone()).collect(),
        };
        settings.choose(&files)?;
        global.backend.clone_from(&settings.backend.value);
        global.stack = match &settings.stack.value {
            Some(name) if global.stack.is_none() => Some(name.parse().map_err(|error| {
                let object = match &settings.stack.origin {
                    Origin::File { path, .. } => path.clone(),
                    _ => "the configuration".to_owned(),
                };
                misuse(object, &format!("{error}"))
            })?),
            _ => global.stack.take(),
        };
        Ok(settings)
    }

    fn choose(&mut self, files: &[File]) -> Result<(), CliError> {
        if self.profile.value.is_none()
            && let Some(file) = files.iter().find(|file| file.document.profile.is_some())
        {
            self.profile = file.setting(None, file.document.profile.clone());
        }
        let profile = self.profile.value.as_deref();
        if let Some(name) = profile {
            require_profile(files, name)?;
        }
        if self.backend.value.is_none() {
            self.backend = pick(
                files,
                profile,
                |file| &file.backend,
                |profile| &profile.backend,
                |file, url| absolute(&file.folder, url),
            );
            if self.stack.value.is_none() {
                self.stack = pick(
                    files,
                    profile,
                    |file| &file.stack,
                    |profile| &profile.stack,
                    |_, name| name.to_owned(),
                );
            }
        }
        Ok(())
    }
}

impl File {
    fn setting(&self, profile: Option<&str>, value: Option<String>) -> Setting {
        Setting {
            value,
            origin: Origin::File {
                path: self.path.clone(),
                profile: profile.map(str::to_owned),
            },
        }
    }
}

/// The value of the profile in the nearest file that has one, else of the nearest file outside of profiles.
fn pick(
    files: &[File],
    profile: Option<&str>,
    outside: impl Fn(&Document) -> &Option<String>,
    inside: impl Fn(&Profile) -> &Option<String>,
    spelled: impl Fn(&File, &str) -> String,
) -> Setting {
    let of_profile = files.iter().find_map(|file| {
        let value = inside(file.document.profiles.get(profile?)?).as_ref()?;
        Some(file.setting(profile, Some(spelled(file, value))))
    });
    let of_file = || {
        files.iter().find_map(|file| {
            let value = outside(&file.document).as_ref()?;
            Some(file.setting(None, Some(spelled(file, value))))
        })
    };
    of_profile.or_else(of_file).unwrap_or_default()
}

fn require_profile(files: &[File], name: &str) -> Result<(), CliError> {
    if files.iter().any(|file| file.document.profiles.contains_key(name)) {
        return Ok(());
    }
    let mut known: Vec<_> = files
        .iter()
        .flat_map(|file| file.document.profiles.keys())
        .collect();
    known.sort();
    known.dedup();
    let hint = if known.is_empty() {
        format!("write it into `{PROJECT_FILE}`: [profiles.{name}]")
    } else {
        let known: Vec<_> = known.into_iter().map(String::as_str).collect();
        format!("the profiles are: {}", known.join(", "))
    };
    Err(misuse(format!("profile {name}"), "no configuration file has it").with_hint(hint))
}

/// A store's URL as it is meant in a file in this folder.
fn absolute(folder: &Path, url: &str) -> String {
    let url = url_of(url);
    match url.strip_prefix("file://") {
        Some(path) => format!("file://{}", folder.join(path).display()),
        None => url,
    }
}

fn read_files(here: &Path) -> Result<Vec<File>, CliError> {
    let project = here.ancestors().map(|folder| folder.join(PROJECT_FILE));
    let project = project.into_iter().find(|path| path.is_file());
    let user = user_folder()
        .map(|folder| folder.join(USER_FILE))
        .filter(|path| path.is_file());
    project
        .into_iter()
        .chain(user)
        .map(|path| read_file(&path))
        .collect()
}

/// Where a user's files lie, by the rules of freedesktop.org.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let of = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    of("XDG_CONFIG_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| of("HOME").map(|home| home.join(".config")))
}

fn read_file(path: &Path) -> Result<File, CliError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| CliError::io(name.clone(), &source))?;
    let document = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
        });
        misuse(format!("{name}:{line}"), error.message()).with_hint(
            "it may hold `profile`, `backend`, `stack`, and a table [profiles.NAME] with the latter two",
        )
    })?;
    Ok(File {
        folder: path.parent().unwrap_or(Path::new("")).to_owned(),
        path: name,
        document,
    })
}

/// What the user's own file remembers.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) path: String,
    /// The store, outside of profiles.
    pub(crate) backend: Option<String>,
}

/// The store that the user's own file names.
pub(crate) fn remembered() -> Result<Remembered, CliError> {
    let path = user_file()?;
    let backend = if path.is_file() {
        read_file(&path)?.document.backend
    } else {
        None
    };
    Ok(Remembered {
        path: path.display().to_string(),
        backend,
    })
}

/// Writes a store into the user's own file, or takes it out. Everything else in there stays as it is.
pub(crate) fn remember(backend: Option<&str>) -> Result<Remembered, CliError> {
    let path = user_file()?;
    let name = path.display().to_string();
    let failed = |source: std::io::Error| CliError::io(name.clone(), &source);
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let after = with_backend(&before, backend);
    // What isn't understood afterwards is not written.
    let understood: Result<Document, _> = toml::from_str(&after);
    let document = understood
        .map_err(|error| misuse(name.clone(), error.message()).with_hint("mend the file by hand first"))?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let staged = path.with_extension("toml.new");
    std::fs::write(&staged, after).map_err(failed)?;
    std::fs::rename(&staged, &path).map_err(failed)?;
    Ok(Remembered {
        path: name,
        backend: document.backend,
    })
}

/// The text with this `backend` before its first table, and no other there.
fn with_backend(text: &str, backend: Option<&str>) -> String {
    let table = text.lines().position(|line| line.trim_start().starts_with('['));
    let is_backend = |line: &str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key == Some("backend")
    };
    let mut lines: Vec<String> = text
        .lines()
        .enumerate()
        .filter(|(at, line)| table.is_some_and(|table| *at >= table) || !is_backend(line))
        .map(|(_, line)| line.to_owned())
        .collect();
    if let Some(backend) = backend {
        lines.insert(0, format!("backend = {}", serde_json::Value::from(backend)));
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn user_file() -> Result<PathBuf, CliError> {
    let folder = user_folder()
        .ok_or_else(|| misuse("the user's settings", "neither HOME nor XDG_CONFIG_HOME is set"))?;
    Ok(folder.join(USER_FILE))
}

/// A store's URL as it is meant here, from wherever it is read later.
pub(crate) fn absolute_here(url: &str) -> Result<String, CliError> {
    let here = std::env::current_dir().map_err(|source| CliError::io("the working folder", &source))?;
    Ok(absolute(&here, url))
}

fn misuse(object: impl Into<String>, message: &str) -> CliError {
    CliError::new(ExitCode::Usage, object, message)
}

#[cfg(test)]
mod tests {
    use super::{absolute, with_backend};
    use std::path::Path;

    #[test]
    fn one_line_changes_and_the_rest_stays() {
        let file = "# mine\nprofile = \"dev\"\nbackend = \"file:///old\"\n\n[profiles.dev]\nbackend = \"file:///dev\"\n";
        let with = with_backend(file, Some("s3://b/c"));
        assert_eq!(
            with,
            "backend = \"s3://b/c\"\n# mine\nprofile = \"dev\"\n\n[profiles.dev]\nbackend = \"file:///dev\"\n"
        );
        assert_eq!(with_backend(&with, Some("s3://b/c")), with);
        assert!(!with_backend(&with, None).contains("s3://"));
        assert!(with_backend(&with, None).contains("file:///dev"));
        assert_eq!(with_backend("", None), "");
    }

    #[test]
    fn a_relative_store_is_relative_to_the_file_that_names_it() {
        let folder = Path::new("/srv/shop");
        assert_eq!(absolute(folder, ".state"), "file:///srv/shop/.state");
        assert_eq!(absolute(folder, "file://../x"), "file:///srv/shop/../x");
        assert_eq!(absolute(folder, "file:///y"), "file:///y");
        assert_eq!(absolute(folder, "s3://bucket"), "s3://bucket");
    }
}

//! The configuration files: the project's `statectl.toml` in the working folder or its nearest parent, and the user's file.
//!
//! ```toml
//! profile = "dev"                      # the default of `--profile`
//! backend = "file://.state"            # a relative path is relative to this file
//!
//! [profiles.production]
//! backend = "file:///srv/state"
//! stack = "shop/production"
//! ```

use crate::durable;
use crate::error::CliError;
use crate::input;
use crate::ownership;
use serde::Deserialize;
use state_manager::{BackendRegistry, file_url};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the project's configuration file.
pub(super) const PROJECT_FILE: &str = "statectl.toml";

/// The user's configuration file, relative to the user's configuration folder.
const USER_FILE: &str = "statectl/config.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    profile: Option<String>,
    backend: Option<String>,
    stack: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// The settings of a profile, or those outside of profiles.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) backend: Option<String>,
    pub(super) stack: Option<String>,
}

/// A configuration file after parsing. Relative paths of stores were made absolute.
pub(super) struct File {
    pub(super) path: String,
    /// Whether this is the project's file, which may come from anyone.
    pub(super) is_project: bool,
    /// The profile that is used unless the command line selects one.
    pub(super) profile: Option<String>,
    pub(super) outside: Profile,
    pub(super) profiles: BTreeMap<String, Profile>,
}

impl File {
    fn read(path: &Path, file: fs::File, is_project: bool) -> Result<Self, CliError> {
        let Document {
            profile,
            backend,
            stack,
            mut profiles,
        } = read_document(path, file)?;
        let mut outside = Profile { backend, stack };
        let folder = path.parent().unwrap_or(Path::new(""));
        for settings in profiles.values_mut().chain([&mut outside]) {
            let backend = settings.backend.take().map(|url| absolute(folder, &url));
            settings.backend = backend.transpose()?;
        }
        Ok(Self {
            path: path.display().to_string(),
            is_project,
            profile,
            outside,
            profiles,
        })
    }
}

impl File {
    /// The parameters of [`REDIRECTING`] that the user's own file names. What a project's file names isn't the user's choice.
    pub(super) fn own_redirects(&self) -> Vec<(&'static str, String)> {
        let backends = self.profiles.values().chain([&self.outside]);
        let backends = backends.filter_map(|settings| settings.backend.as_deref());
        let backends = backends.filter(|_| !self.is_project);
        backends.flat_map(redirects_of).collect()
    }
}

/// The parameters of a store's URL that decide which server receives the requests. A service account's key file counts,
/// because it can name the server.
const REDIRECTING: [&str; 3] = ["endpoint", "service-account", "emulator"];

/// The parameters of [`REDIRECTING`] that the URL of a store names, with their values.
pub(crate) fn redirects_of(url: &str) -> Vec<(&'static str, String)> {
    let configured = BackendRegistry::default().configured(url);
    let mut configured = configured.unwrap_or_default();
    let mut value = |field| configured.remove(field).filter(|value| !value.is_empty());
    let named = REDIRECTING.into_iter();
    named.filter_map(|field| Some((field, value(field)?))).collect()
}

/// The URL of a store; a path becomes a `file` URL.
///
/// # Errors
/// [`Usage`](crate::ExitCode::Usage) for a text such as `s3:user:password@bucket` or `file://user:password@host`: it would be
/// a path, and messages print paths whole.
pub(crate) fn url_of(backend: &str) -> Result<String, CliError> {
    if let Some(scheme) = BackendRegistry::default().incomplete_scheme(backend) {
        let error = CliError::usage(
            format!("backend {scheme}"),
            "not a URL: `://` is missing after the scheme",
        );
        return Err(error.with_hint(format!("write `{scheme}://…`; a path begins with `./` or `/`")));
    }
    let path = match backend.strip_prefix("file://") {
        Some(path) => Some(path),
        None => Some(backend).filter(|backend| !backend.contains("://")),
    };
    if path.is_some_and(names_user) {
        let error = CliError::usage(
            "backend",
            "it contains a user and a password, and a path has none",
        );
        return Err(error.with_hint(
            "pass credentials in the environment; a path with `:` and `@` begins with `./`, as in `file://./a:b@c`",
        ));
    }
    Ok(if backend.contains("://") {
        backend.to_owned()
    } else {
        file_url(backend)
    })
}

/// Whether a text that names a path contains `user:password@`, also behind a misspelt scheme such as `https:/`. A path that
/// begins with `/` or `.` may contain these characters.
fn names_user(path: &str) -> bool {
    let is_path = path.starts_with('.') || path.starts_with('/') && !path.starts_with("//");
    let (before, _) = path.rsplit_once('@').unwrap_or_default();
    !is_path && before.contains(':')
}

/// A store's URL; a relative path is resolved against `folder`.
fn absolute(folder: &Path, url: &str) -> Result<String, CliError> {
    let url = url_of(url)?;
    Ok(match url.strip_prefix("file://") {
        Some(path) => format!("file://{}", folder.join(path).display()),
        None => url,
    })
}

/// The configuration files for a working folder: the project's file first, then the user's. A project's file that isn't
/// trusted is left out, and the error for it is returned beside the others.
pub(super) fn read_all(here: &Path) -> Result<(Vec<File>, Option<CliError>), CliError> {
    let project = here.ancestors().map(|folder| folder.join(PROJECT_FILE));
    let project = project.into_iter().find(|path| path.is_file());
    let user = user_folder()
        .map(|folder| folder.join(USER_FILE))
        .filter(|path| path.is_file());
    let mut files = Vec::new();
    let mut refused = None;
    if let Some(path) = project {
        let own = open(&path).and_then(|file| {
            ownership::require_own_file("settings", &path, &file)?;
            Ok(file)
        });
        match own {
            Ok(file) => files.push(File::read(&path, file, true)?),
            Err(error) => refused = Some(error),
        }
    }
    if let Some(path) = user {
        files.push(File::read(&path, open(&path)?, false)?);
    }
    Ok((files, refused))
}

/// The user's configuration folder, by the XDG Base Directory Specification.
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

fn open(path: &Path) -> Result<fs::File, CliError> {
    fs::File::open(path).map_err(|source| CliError::io(path.display().to_string(), &source))
}

/// A message of the TOML parser without the values of the file, which may be secrets in the wrong place: without the texts
/// in double quotes, and without the name of an unknown field.
fn without_values(message: &str) -> String {
    let message = match message.strip_prefix("unknown field `") {
        Some(rest) => {
            let expected = rest
                .split_once("`, expected")
                .map_or("", |(_, expected)| expected);
            format!("unknown field, expected{expected}")
        }
        None => message.to_owned(),
    };
    let mut parts = message.split('"');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    if let Some(last) = parts.next_back() {
        shown.push('…');
        shown.push_str(last);
    }
    shown
}

fn read_document(path: &Path, file: fs::File) -> Result<Document, CliError> {
    let name = path.display().to_string();
    let text =
        input::limited_text(file, input::MAX_SMALL).map_err(|source| CliError::io(name.clone(), &source))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
        });
        CliError::usage(format!("{name}:{line}"), &without_values(error.message())).with_hint(
            "allowed keys are `profile`, `backend`, `stack`, and `backend` and `stack` in tables `[profiles.NAME]`",
        )
    })
}

/// The default store saved in the user's configuration file.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) path: String,
    /// URL of the default store, outside of profiles; none if no default store is saved.
    pub(crate) backend: Option<String>,
}

/// Reads the default store from the user's configuration file.
pub(crate) fn remembered() -> Result<Remembered, CliError> {
    let path = user_file()?;
    let backend = if path.is_file() {
        read_document(&path, open(&path)?)?.backend
    } else {
        None
    };
    Ok(Remembered {
        path: path.display().to_string(),
        backend,
    })
}

/// Writes the default store to the user's configuration file, or removes it. The rest of the file stays unchanged.
pub(crate) fn remember(backend: Option<&str>) -> Result<Remembered, CliError> {
    let path = user_file()?;
    let name = path.display().to_string();
    let failed = |source: std::io::Error| CliError::io(name.clone(), &source);
    let before = match fs::File::open(&path).and_then(|file| input::limited_text(file, input::MAX_SMALL)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let after = with_backend(&before, backend);
    // Check the new text before it is written: a hand-written file may use TOML that `with_backend` doesn't expect.
    let understood: Result<Document, _> = toml::from_str(&after);
    let document = understood.map_err(|error| {
        CliError::usage(name.clone(), error.message()).with_hint("correct the file by hand first")
    })?;
    if let Some(folder) = path.parent() {
        durable::create_folder(folder).map_err(failed)?;
    }
    let staged = path.with_extension("toml.new");
    durable::replace(&path, &staged, after.as_bytes()).map_err(failed)?;
    Ok(Remembered {
        path: name,
        backend: document.backend,
    })
}

/// The text with this value as its only top-level `backend` key, or without such a key for `None`.
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
        .ok_or_else(|| CliError::usage("user configuration", "neither HOME nor XDG_CONFIG_HOME is set"))?;
    Ok(folder.join(USER_FILE))
}

/// A store's URL; a relative path is resolved against the working folder.
pub(crate) fn absolute_here(url: &str) -> Result<String, CliError> {
    absolute(&here()?, url)
}

/// The working folder of the process.
pub(crate) fn here() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|source| CliError::io("working folder", &source))
}

#[cfg(test)]
mod tests {
    use super::{absolute, with_backend};
    use std::path::Path;

    #[test]
    fn only_the_backend_line_changes() {
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
    fn relative_store_path_is_relative_to_its_file() {
        let absolute = |url| absolute(Path::new("/srv/shop"), url).unwrap();
        assert_eq!(absolute(".state"), "file:///srv/shop/.state");
        assert_eq!(absolute("file://../x"), "file:///srv/shop/../x");
        assert_eq!(absolute("file:///y"), "file:///y");
        assert_eq!(absolute("s3://bucket"), "s3://bucket");
        assert_eq!(absolute("./s3:bucket"), "file:///srv/shop/./s3:bucket");
    }
}

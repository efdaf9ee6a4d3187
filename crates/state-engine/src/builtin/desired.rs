//! The desired path and permissions of a file or directory, and their comparison with the recorded and the actual
//! object.

use super::members::{Members, members, text, value};
use super::place::{Place, absolute};
use crate::kind::is_octal_mode;
use crate::provider::{Diff, DiffRequest, Failure, ReadRequest, ReadResult};
use rustix::fs::{Mode, RawMode, Stat};
use state_core::{Json, LogLevel, Properties};
use std::path::Path;

/// A desired path with permissions.
pub(super) struct DesiredPath {
    /// The absolute path, or the reason why it is invalid.
    path: Result<String, String>,
    pub(super) mode: u64,
}

impl DesiredPath {
    /// Reads the inputs, with `mode` as the default permissions. An import or a read may omit the input `path`; then
    /// [`path`](Self::path) returns an error.
    pub(super) fn of(folder: &Path, inputs: &Properties, mode: u64) -> Self {
        let path = text(inputs, "path").ok_or_else(|| "it is missing".to_owned());
        let asked = text(inputs, "mode").and_then(|mode| parsed_mode(&mode));
        Self {
            path: path.and_then(|path| absolute(folder, &path)),
            mode: asked.unwrap_or(mode),
        }
    }

    pub(super) fn path(&self) -> Result<&str, Failure> {
        let path = self.path.as_deref();
        path.map_err(|reason| Failure::not_done(invalid_path("path", reason)))
    }

    fn is_at(&self, path: Option<&str>) -> bool {
        self.path.as_deref().ok() == path
    }

    /// Compares the desired path and permissions with the recorded object.
    pub(super) fn diff(&self, request: &DiffRequest) -> Diff {
        let unknown = &request.unknown;
        let recorded = value(&request.old_outputs, "mode");
        let mut diff = Diff::default();
        if unknown.contains("mode") || recorded != Some(Json::from_string(&mode_text(self.mode))) {
            diff.changed.insert("mode".to_owned());
        }
        if unknown.contains("path") || !self.is_at(request.id.as_deref()) {
            diff.changed.insert("path".to_owned());
            diff.replace.insert("path".to_owned());
        }
        // With a new path, both objects can exist at once. Any other replacement needs the path of the old object, so
        // the old object must be deleted first.
        diff.delete_before_replace = diff.replace.is_empty();
        diff
    }

    /// Returns the inputs `asked` with the actual path and permissions of the object. Inputs that `asked` doesn't
    /// contain stay unset.
    pub(super) fn inputs_of(&self, place: &Place, mode: u64, asked: &Properties) -> Members {
        let mut now = members(asked);
        if let Some(input) = now.get_mut("path").filter(|_| !self.is_at(Some(&place.path))) {
            *input = Json::from_string(&place.path);
        }
        if let Some(input) = now.get_mut("mode").filter(|_| self.mode != mode) {
            *input = Json::from_string(&mode_text(mode));
        }
        now
    }
}

/// The outputs that files and directories have in common.
pub(super) fn outputs_of(place: &Place, mode: u64) -> Members {
    Members::from([
        ("mode".to_owned(), Json::from_string(&mode_text(mode))),
        ("path".to_owned(), Json::from_string(&place.path)),
    ])
}

/// The message about an invalid path input.
pub(super) fn invalid_path(name: &str, reason: &str) -> String {
    format!("`{name}` is not a valid path: {reason}")
}

/// Logs a warning and returns `Missing`: the path is in use, but not by an object that this resource created.
pub(super) fn foreign_object(path: &str, request: &ReadRequest) -> ReadResult {
    let what = format!("{path}: the existing object wasn't created by this resource, so it is left alone");
    request.context.log.emit(LogLevel::Warning, what);
    ReadResult::Missing
}

/// Parses permissions from octal digits.
fn parsed_mode(text: &str) -> Option<u64> {
    let digits = is_octal_mode(text).then_some(text)?;
    u64::from_str_radix(digits, 8).ok()
}

/// Formats permissions as at least four octal digits.
pub(super) fn mode_text(mode: u64) -> String {
    format!("{mode:04o}")
}

/// Returns the permissions of a file status.
pub(super) fn mode_of(stat: &Stat) -> u64 {
    u64::from(stat.st_mode) & 0o7777
}

/// Converts permissions to the system's type.
pub(super) fn raw_mode(mode: u64) -> Mode {
    // Twelve bits fit into the system's type on every platform.
    Mode::from_raw_mode(RawMode::try_from(mode & 0o7777).unwrap_or_default())
}

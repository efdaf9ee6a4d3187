//! What a program wants of files and folders alike: where they are, and their rights.

use super::members::{Members, members, text, value};
use super::place::{Place, absolute};
use crate::kind::is_rights;
use crate::provider::{Diff, DiffRequest, Failure, ReadRequest, ReadResult};
use rustix::fs::{Mode, RawMode, Stat};
use state_core::{Json, LogLevel, Properties};
use std::path::Path;

/// A path and rights.
pub(super) struct DesiredPath {
    /// The absolute path, or why there is none.
    path: Result<String, String>,
    pub(super) mode: u64,
}

impl DesiredPath {
    /// What the inputs say, and the rights unless they do. Those of an import or of a read need say nothing.
    pub(super) fn of(folder: &Path, inputs: &Properties, mode: u64) -> Self {
        let path = text(inputs, "path").ok_or_else(|| "there is none".to_owned());
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

    /// How they differ from what is on record.
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
        // Two can't have one path.
        diff.delete_before_replace = diff.replace.is_empty();
        diff
    }

    /// The inputs that would make it as it is.
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

/// The outputs that both have.
pub(super) fn outputs_of(place: &Place, mode: u64) -> Members {
    Members::from([
        ("mode".to_owned(), Json::from_string(&mode_text(mode))),
        ("path".to_owned(), Json::from_string(&place.path)),
    ])
}

/// What is wrong with an input that is a path.
pub(super) fn invalid_path(name: &str, reason: &str) -> String {
    format!("`{name}` is no path: {reason}")
}

/// The create made nothing: what is there is of another make.
pub(super) fn foreign_object(path: &str, request: &ReadRequest) -> ReadResult {
    let what = format!("{path}: what is there isn't what was to be made, so it is somebody else's");
    request.context.log.emit(LogLevel::Warning, what);
    ReadResult::Missing
}

/// The rights that the digits say.
fn parsed_mode(text: &str) -> Option<u64> {
    let digits = is_rights(text).then_some(text)?;
    u64::from_str_radix(digits, 8).ok()
}

/// The digits of the rights.
pub(super) fn mode_text(mode: u64) -> String {
    format!("{mode:04o}")
}

/// The rights of what has this status.
pub(super) fn mode_of(stat: &Stat) -> u64 {
    u64::from(stat.st_mode) & 0o7777
}

/// The rights as the system takes them.
pub(super) fn raw_mode(mode: u64) -> Mode {
    // Four octal digits fit, however wide the system's type is.
    Mode::from_raw_mode(RawMode::try_from(mode & 0o7777).unwrap_or_default())
}

//! Opens a text in the user's editor, repeatedly until the text is valid or the user cancels.

use super::draft_folder::DraftFolder;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use state_core::Nonce;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefix of note lines, which are written above the text and removed when the text is read back.
const NOTE: &str = "// ";

/// The result of an edit.
pub(super) enum EditResult<T> {
    /// The text was changed and is valid.
    Accepted(T),
    /// The text was saved unchanged.
    Unchanged,
    /// The user emptied the text to cancel the edit.
    Cancelled,
}

/// Opens the editor until `judge` accepts the text. Problems returned by `judge` are shown as notes above the text.
///
/// # Errors
/// If no editor is configured, if the editor fails, or if the same invalid text is saved twice. The last rule ends the
/// loop if the editor is a script.
pub(super) fn edit<T>(
    context: &Context,
    introduction: &str,
    text: &str,
    judge: impl Fn(&str) -> Result<T, Vec<String>>,
) -> Result<EditResult<T>, CliError> {
    let draft = Draft::new(context)?;
    let mut notes = vec![introduction.to_owned()];
    let mut shown = text.to_owned();
    let mut is_bad = false;
    loop {
        draft.open(&notes, &shown)?;
        let edited = draft.read()?;
        if edited.trim().is_empty() {
            return Ok(EditResult::Cancelled);
        }
        if edited.trim() == shown.trim() {
            if is_bad {
                return Err(bad(&notes[1..]));
            }
            return Ok(EditResult::Unchanged);
        }
        match judge(&edited) {
            Ok(good) => return Ok(EditResult::Accepted(good)),
            Err(problems) => {
                notes.truncate(1);
                notes.extend(problems);
                (shown, is_bad) = (edited, true);
            }
        }
    }
}

fn bad(problems: &[String]) -> CliError {
    let message = format!("invalid state: {}", problems.join("; "));
    CliError::new(ExitCode::Integrity, "edited text", &message)
        .with_hint("run `statectl edit` again and fix the listed problems")
}

/// A temporary file that only its owner can read. The file is deleted on drop; a file of a process that was killed is
/// deleted by the next edit.
struct Draft {
    /// Kept until the edit ends: dropping it deletes the file.
    _folder: DraftFolder,
    file: PathBuf,
    editor: String,
}

impl Draft {
    fn new(context: &Context) -> Result<Self, CliError> {
        let named = |name| {
            std::env::var(name)
                .ok()
                .filter(|editor| !editor.trim().is_empty())
        };
        let editor = named("VISUAL").or_else(|| named("EDITOR")).ok_or_else(|| {
            CliError::failed("editor", "neither $VISUAL nor $EDITOR is set").with_hint(
                "set an editor, for example `export EDITOR=vi`, or use `statectl apply-edits FILE`",
            )
        })?;
        let folder = DraftFolder::create(Nonce::random(&*context.environment.entropy))?;
        let file = folder.path().join("edit.json");
        Ok(Self {
            _folder: folder,
            file,
            editor,
        })
    }

    /// Writes the notes and the text, opens the editor, and waits until the editor exits.
    fn open(&self, notes: &[String], text: &str) -> Result<(), CliError> {
        let mut content = String::new();
        for line in notes.iter().flat_map(|note| note.lines()) {
            content.push_str(NOTE);
            content.push_str(line);
            content.push('\n');
        }
        content.push_str(text);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&self.file)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .map_err(|source| failed(&self.file, &source))?;
        // The variable may hold arguments, such as `code --wait`: let a shell split it, as git does.
        let status = Command::new("sh")
            .args(["-c", &format!("{} \"$1\"", self.editor), "sh"])
            .arg(&self.file)
            .status()
            .map_err(|source| CliError::io("editor", &source))?;
        if status.success() {
            return Ok(());
        }
        let message = format!("`{}` failed with {status}", self.editor);
        Err(CliError::failed("editor", &message))
    }

    /// The text without the notes on top.
    fn read(&self) -> Result<String, CliError> {
        let text = std::fs::read_to_string(&self.file).map_err(|source| failed(&self.file, &source))?;
        let is_note = |line: &&str| line.trim_start().starts_with(NOTE.trim_end());
        Ok(text.split_inclusive('\n').skip_while(is_note).collect())
    }
}

fn failed(path: &Path, source: &std::io::Error) -> CliError {
    CliError::io(path.display().to_string(), source)
}

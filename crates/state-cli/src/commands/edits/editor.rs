//! A text in the user's editor, again and again until it is good or given up.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use state_core::Nonce;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a line of a note begins. Notes stand on top and are taken off again.
const NOTE: &str = "// ";

/// How an edit ended.
pub(super) enum Edited<T> {
    /// The text was changed and is good.
    Good(T),
    /// The text came back as it was.
    Unchanged,
    /// The text was emptied: whoever edits gives up.
    GivenUp,
}

/// Opens the text until `judge` takes it. What `judge` says is wrong comes as a note on top of the text.
///
/// # Errors
/// When there is no editor, or it fails, or the same bad text comes back twice.
pub(super) fn edit<T>(
    context: &Context,
    introduction: &str,
    text: &str,
    judge: impl Fn(&str) -> Result<T, Vec<String>>,
) -> Result<Edited<T>, CliError> {
    let draft = Draft::new(context)?;
    let mut notes = vec![introduction.to_owned()];
    let mut shown = text.to_owned();
    let mut is_bad = false;
    loop {
        draft.open(&notes, &shown)?;
        let edited = draft.read()?;
        if edited.trim().is_empty() {
            return Ok(Edited::GivenUp);
        }
        if edited.trim() == shown.trim() {
            if is_bad {
                return Err(bad(&notes[1..]));
            }
            return Ok(Edited::Unchanged);
        }
        match judge(&edited) {
            Ok(good) => return Ok(Edited::Good(good)),
            Err(problems) => {
                notes.truncate(1);
                notes.extend(problems);
                (shown, is_bad) = (edited, true);
            }
        }
    }
}

fn bad(problems: &[String]) -> CliError {
    let message = format!("{}; nothing was changed", problems.join("; "));
    CliError::new(ExitCode::Integrity, "the edited text", &message).with_hint("edit it again and mend that")
}

/// A file that only its owner can read, and that goes when the edit ends.
struct Draft {
    folder: PathBuf,
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
            CliError::failed("the editor", "neither $VISUAL nor $EDITOR names one")
                .with_hint("name one, for example `EDITOR=vi`; or use `statectl apply-edits FILE`")
        })?;
        let nonce = Nonce::random(&*context.environment.entropy);
        let folder = std::env::temp_dir().join(format!("statectl-{nonce}"));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(|source| failed(&folder, &source))?;
        let file = folder.join("edit.json");
        Ok(Self { folder, file, editor })
    }

    /// Writes the text under its notes, and waits until the editor ends.
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
        // A shell splits what the variable holds, as other tools do.
        let status = Command::new("sh")
            .args(["-c", &format!("{} \"$1\"", self.editor), "sh"])
            .arg(&self.file)
            .status()
            .map_err(|source| CliError::io("the editor", &source))?;
        if status.success() {
            return Ok(());
        }
        let message = format!("`{}` ended with {status}; nothing was changed", self.editor);
        Err(CliError::failed("the editor", &message))
    }

    /// The text without the notes on top.
    fn read(&self) -> Result<String, CliError> {
        let text = std::fs::read_to_string(&self.file).map_err(|source| failed(&self.file, &source))?;
        let is_note = |line: &&str| line.trim_start().starts_with(NOTE.trim_end());
        Ok(text.split_inclusive('\n').skip_while(is_note).collect())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.folder).is_err() {
            // It is in the folder for temporary files, and only its owner can read it.
        }
    }
}

fn failed(path: &Path, source: &std::io::Error) -> CliError {
    CliError::io(path.display().to_string(), source)
}

//! `trust path`: accepts a store, a settings file or a program of another owner.

use super::no_memory;
use crate::commands::deploy::PROGRAM_NAMES;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::trusted::{FoundPath, TrustedPaths};
use serde::Serialize;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names of the stores and settings that commands find by themselves, beside the [programs](PROGRAM_NAMES).
const FOUND: [&str; 2] = [".state", "statectl.toml"];

#[derive(Serialize)]
struct PathReport {
    path: String,
}

/// Runs `trust path` and returns its report.
pub(super) fn run(context: &Context, path: &Path) -> CommandResult {
    let object = path.display().to_string();
    let Some(trusted) = TrustedPaths::of_user() else {
        return Err(no_memory(object));
    };
    let target = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => CliError::not_found(&*object, "no such file or folder")
            .with_hint("pass the path that the error message names"),
        _ => CliError::io(&*object, &error),
    })?;
    let mut found = FOUND.iter().chain(&PROGRAM_NAMES);
    if !path
        .file_name()
        .is_some_and(|name| found.any(|found| name == *found))
    {
        let message = format!(
            "only a folder `.state`, a file `statectl.toml` and a program ({}) need to be accepted",
            PROGRAM_NAMES.join(", ")
        );
        return Err(CliError::usage(object, &message).with_hint(
            "name any other store with `--backend` and any other program as an argument: these aren't checked",
        ));
    }
    let shown = FoundPath::of(path)?;
    let question = format!(
        "{object} belongs to the user with the id {}, and has the mode {:04o}. Use it although other users may change it?",
        target.uid(),
        target.mode() & 0o7777
    );
    context.prompt.confirm(&object, &question)?;
    if FoundPath::of(path)? != shown {
        let message = "it led to another place when you were asked; nothing was accepted";
        return Err(
            CliError::conflict(object, message).with_hint("look at the path, then run the command again")
        );
    }
    trusted.accept(&shown)?;
    let report = PathReport {
        path: shown.absolute.display().to_string(),
    };
    context.report("trust-path", &report, Vec::new(), |page| {
        page.line(format_args!("this client trusts {}", report.path));
    })
}

//! The command `export`: writes the state in the format of another system.

mod document;

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format};
use crate::marks::StackStatus;
use crate::output::Report;
use crate::settings::HIDDEN;
use document::Document;
use serde::Serialize;
use state_core::mask::{OpaquePointers, mask_snapshot};
use state_core::{RevisionId, SharedEntry, Snapshot};
use state_manager::{RevisionSpec, View};
use std::path::PathBuf;
use std::sync::Arc;

/// Export the state in the format of its system
///
/// The export of a plaintext stack contains its secrets. The export of an encrypted stack needs `--show-secrets`, or `--masked`
/// to replace sensitive values by placeholders. A masked export is for reading only: its system refuses to load it, and it
/// can't be imported. The native format is masked unless `--show-secrets` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_parser = formats::named, help = format!(
        "Format: {} [default: the format it was imported from]",
        formats::listed("")
    ))]
    format: Option<Format>,
    /// Export this revision [default: the latest state]
    ///
    /// A revision is named by its id, a prefix of its id, its serial, `@` (current) or `@-` (the one before).
    #[arg(long, visible_alias = "at", value_name = "REV")]
    rev: Option<RevisionSpec>,
    /// Replace sensitive values by placeholders, in a form that no tool loads
    #[arg(long)]
    masked: bool,
    /// Write to this file instead of stdout, readable only by you
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ExportReport<'a> {
    #[serde(flatten)]
    status: &'a StackStatus,
    /// The revision given by `--rev`; none for the latest state.
    exported_revision: Option<RevisionId>,
    format: &'static str,
    bytes: usize,
    file: Option<String>,
    /// The exported document as text; none if it was written to a file.
    document: Option<&'a str>,
    /// Whether sensitive values are masked in the document.
    masked: bool,
}

/// Runs the command `export` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let (view, revision) = context.store.read_at(args.rev.as_ref()).await?;
    // The process ends with this command: to free a large state resource by resource would take 6 % of its time.
    std::mem::forget(Arc::clone(&view.state));
    let (snapshot, status) = selected(&view, revision);
    let mut warnings = status.warnings();
    let format = args.format.unwrap_or_else(|| formats::all().origin(&snapshot));
    let is_masked = masks(context, args, &view, format)?;
    if args.format.is_none() {
        warnings.extend(mixed_origin(&snapshot, format));
    }
    let document = Document {
        snapshot: shown(&view, snapshot, is_masked).await?,
        stack: view.name.short(),
        format,
        is_masked,
    };
    if is_masked {
        let masked = "sensitive values are masked, so the export can't be imported; pass `--show-secrets` to export them";
        warnings.push(masked.to_owned());
    }
    let (length, text) = if let Some(file) = &args.output {
        let length = document.write_file(file, args.force || context.settings.yes)?;
        (length, None)
    } else if context.output.json {
        let bytes = document.bytes()?;
        (bytes.len(), Some(String::from_utf8_lossy(&bytes).into_owned()))
    } else {
        if context.output.terminal.stdout && !is_masked {
            warnings.push(
                "the output above contains secrets in plaintext; use `-o FILE` to write a file that only you can read"
                    .to_owned(),
            );
        }
        document.print()?;
        return Ok(Report::empty().warned(warnings));
    };
    let exported = ExportReport {
        exported_revision: status.at.clone(),
        status: &status,
        format: format.name(),
        bytes: length,
        file: args.output.as_ref().map(|file| file.display().to_string()),
        document: text.as_deref(),
        masked: is_masked,
    };
    context.report("export", &exported, warnings, |page| {
        let file = exported.file.as_deref().unwrap_or_default();
        page.line(format_args!(
            "wrote {} bytes ({}) to {file}; {}",
            exported.bytes,
            exported.format,
            if is_masked {
                "secrets are masked"
            } else {
                "it contains secrets in plaintext"
            }
        ));
    })
}

/// Whether sensitive values are replaced by placeholders. The placeholders look like values to another system, so they are
/// never written to its format unasked.
fn masks(context: &Context, args: &Args, view: &View, format: Format) -> Result<bool, CliError> {
    let (is_encrypted, show_secrets) = (view.head.key_id.is_some(), context.settings.show_secrets);
    let object = format!("stack {}", view.name.short());
    if args.masked && show_secrets {
        let error = CliError::usage(object, "`--masked` and `--show-secrets` contradict each other");
        return Err(error.with_hint("pass only one of them"));
    }
    if is_encrypted && !show_secrets && !args.masked && is_foreign(format) {
        let system = format.description().system;
        let message = format!("cannot export to {system}: the stack is encrypted");
        return Err(CliError::refused(object, &message).with_hint(format!(
            "write decrypted values with `statectl export --show-secrets -o FILE`; or write placeholders, which {system} refuses \
             to load, with `statectl export --masked`"
        )));
    }
    Ok(args.masked || (is_encrypted && !show_secrets))
}

fn is_foreign(format: Format) -> bool {
    format.name() != formats::NATIVE
}

/// The warning for a stack that is exported as `native` although some of its resources came from another system.
fn mixed_origin(snapshot: &Snapshot, format: Format) -> Option<String> {
    if is_foreign(format) {
        return None;
    }
    let mut systems = formats::all().iter().filter(|other| {
        let came = |entry: &SharedEntry| entry.extensions.contains_key(other.name());
        is_foreign(*other) && snapshot.entries.iter().any(came)
    });
    let system = systems.next()?.description().system;
    Some(format!(
        "exported as native: only some of the resources came from {system}, so {system} can't load this stack"
    ))
}

/// The snapshot at a revision, or the latest state, with its status.
fn selected(view: &View, revision: Option<(RevisionId, Snapshot)>) -> (Snapshot, StackStatus) {
    match revision {
        None => (view.snapshot(), StackStatus::of(view)),
        Some((id, snapshot)) => {
            let status = StackStatus::at(&view.name, id, &snapshot);
            (snapshot, status)
        }
    }
}

/// The snapshot to export, either masked or with all values decrypted.
async fn shown(view: &View, snapshot: Snapshot, is_masked: bool) -> Result<Snapshot, CliError> {
    if !is_masked {
        return Ok(view.reveal(snapshot).await?);
    }
    let opaque = || formats::all().opaque().map(|(_, opaque)| opaque);
    let all = OpaquePointers {
        in_entry: &opaque().flat_map(|of| of.in_entry).copied().collect::<Vec<_>>(),
        in_snapshot: &opaque()
            .flat_map(|of| of.in_snapshot)
            .copied()
            .collect::<Vec<_>>(),
    };
    Ok(mask_snapshot(&snapshot, HIDDEN, all))
}

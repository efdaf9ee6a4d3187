//! The command `export`: writes the state in the format of another system.

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format};
use crate::identities::create_private;
use crate::marks::StackStatus;
use crate::output::Report;
use crate::settings::{HIDDEN, MASKED};
use serde::Serialize;
use state_core::mask::{OpaquePointers, mask_snapshot};
use state_core::{RevisionId, Snapshot};
use state_manager::{RevisionSpec, View};
use std::path::{Path, PathBuf};

/// Export the state in the format of its system
///
/// The export of a plaintext stack contains its secrets. In the export of an encrypted stack, sensitive values are masked
/// unless `--show-secrets` is given; a masked export can't be imported.
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
    let view = context.store.open_view().await?;
    let (snapshot, status) = match &args.rev {
        Some(wanted) => {
            let id = view.revision_list().await?.resolve(wanted)?;
            let snapshot = view.get(&id).await?;
            let status = StackStatus::at(&view.name, id, &snapshot);
            (snapshot, status)
        }
        None => (view.snapshot(), StackStatus::of(&view)),
    };
    let mut warnings = status.warnings();
    let format = args.format.unwrap_or_else(|| formats::all().origin(&snapshot));
    let is_masked = view.head.key_id.is_some() && !context.settings.show_secrets;
    let bytes = document(&view, snapshot, format, is_masked).await?;
    if is_masked {
        let masked = "sensitive values are masked, so the export can't be imported; pass `--show-secrets` to export them";
        warnings.push(masked.to_owned());
    }
    if let Some(file) = &args.output {
        write_file(file, &bytes, args.force || context.settings.yes)?;
    } else if !context.output.json {
        if context.output.terminal.stdout && !is_masked {
            warnings.push(
                "the output above contains secrets in plaintext; use `-o FILE` to write a file that only you can read"
                    .to_owned(),
            );
        }
        return Ok(Report::raw(bytes, warnings));
    }
    let text = String::from_utf8_lossy(&bytes);
    let exported = ExportReport {
        exported_revision: status.at.clone(),
        status: &status,
        format: format.name(),
        bytes: bytes.len(),
        file: args.output.as_ref().map(|file| file.display().to_string()),
        document: args.output.is_none().then_some(&*text),
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

/// Encodes the document, either masked or with all values decrypted.
async fn document(
    view: &View,
    snapshot: Snapshot,
    format: Format,
    is_masked: bool,
) -> Result<Vec<u8>, CliError> {
    let snapshot = if is_masked {
        let opaque = || formats::all().opaque().map(|(_, opaque)| opaque);
        let all = OpaquePointers {
            in_entry: &opaque().flat_map(|of| of.in_entry).copied().collect::<Vec<_>>(),
            in_snapshot: &opaque()
                .flat_map(|of| of.in_snapshot)
                .copied()
                .collect::<Vec<_>>(),
        };
        mask_snapshot(&snapshot, HIDDEN, all)
    } else {
        view.reveal(snapshot).await?
    };
    let exported = formats::all().export(&snapshot, format);
    let mut bytes = exported.map_err(|error| failed(&view.name.short(), error))?;
    if is_masked {
        mark_as_masked(&mut bytes);
    }
    Ok(bytes)
}

/// Adds the member by which `import` recognizes a masked export, so that it never stores placeholders as values.
fn mark_as_masked(bytes: &mut Vec<u8>) {
    if bytes.first() == Some(&b'{') {
        let mark = format!("\n  \"{MASKED}\": true,");
        bytes.splice(1..1, mark.into_bytes());
    }
}

fn failed(stack: &str, error: state_formats::Error) -> CliError {
    match error {
        state_formats::Error::Core(core) => core.into(),
        other => CliError::failed(format!("stack {stack}"), &other.to_string())
            .with_hint("use the native format: `statectl export --format native`"),
    }
}

/// Writes a file that only its owner can read. Without `replace`, an existing file is an error; with it, the old content
/// stays in place until the new content is complete.
fn write_file(file: &Path, bytes: &[u8], replace: bool) -> Result<(), CliError> {
    let name = file.display().to_string();
    let written = if replace {
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        let written = create_private(&beside, bytes).and_then(|()| std::fs::rename(&beside, file));
        if written.is_err() && std::fs::remove_file(&beside).is_err() {
            // Creating the temporary file was what failed, so there is none to remove.
        }
        written
    } else {
        create_private(file, bytes)
    };
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => CliError::refused(name, "the file already exists")
            .with_hint("overwrite it with `--force`, or name another file"),
        _ => CliError::io(name, &source).with_hint("name a file in a writable folder"),
    })
}

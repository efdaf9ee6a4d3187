//! `export`: print the state in its system's own format.

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format};
use crate::identities::create_private;
use crate::marks::ResourceStatus;
use crate::output::Report;
use crate::settings::{HIDDEN, MASKED};
use serde::Serialize;
use state_core::mask::{OpaquePointers, mask_snapshot};
use state_core::{RevisionId, Snapshot};
use state_manager::{RevisionSpec, Stack};
use std::path::{Path, PathBuf};

/// Print the state in the format of the system that it came from. That of a plain stack holds its secrets; of a sealed
/// one they are masked, unless `--show-secrets` is said: then the document can be imported again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_parser = formats::named, help = format!(
        "The format: {}. Default: the one that it came in",
        formats::listed("")
    ))]
    format: Option<Format>,
    /// The revision: an id, the beginning of one, a serial, `@` or `@-`. Default: the latest state.
    #[arg(long, visible_alias = "at", value_name = "REV")]
    rev: Option<RevisionSpec>,
    /// Write to this file, readable by you only, instead of stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Exported<'a> {
    #[serde(flatten)]
    standing: &'a ResourceStatus,
    /// The revision that was asked for; none for the latest state.
    exported_revision: Option<RevisionId>,
    format: &'static str,
    bytes: usize,
    file: Option<String>,
    /// The document as text, when it went to no file.
    document: Option<&'a str>,
    /// Whether sensitive values are masked in it.
    masked: bool,
}

/// Exports.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let stack = context.store.open_stack().await?;
    let view = stack.tip().await?;
    let (snapshot, standing) = match &args.rev {
        Some(wanted) => {
            let id = stack.revision_list().await?.resolve(wanted)?;
            let snapshot = stack.get(&id).await?;
            let standing = ResourceStatus::at(stack.name(), id, &snapshot);
            (snapshot, standing)
        }
        None => (view.snapshot(), ResourceStatus::of(&view)),
    };
    let mut warnings = standing.warnings();
    let format = args.format.unwrap_or_else(|| formats::all().origin(&snapshot));
    let is_masked = view.head.key_id.is_some() && !context.settings.show_secrets;
    let bytes = document(&stack, snapshot, format, is_masked).await?;
    if is_masked {
        let masked =
            "sensitive values are masked, so it can't be imported back; `--show-secrets` exports them";
        warnings.push(masked.to_owned());
    }
    if let Some(file) = &args.output {
        write_file(file, &bytes, args.force || context.settings.yes)?;
    } else if !context.output.json {
        if context.output.terminal.stdout && !is_masked {
            warnings.push(
                "what is above holds secrets as they are: `-o FILE` writes a file that only you can read"
                    .to_owned(),
            );
        }
        return Ok(Report::raw(bytes, warnings));
    }
    let text = String::from_utf8_lossy(&bytes);
    let exported = Exported {
        exported_revision: standing.at.clone(),
        standing: &standing,
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
                "its secrets are masked"
            } else {
                "it holds secrets as they are"
            }
        ));
    })
}

/// The document, without secrets or with all values open.
async fn document(
    stack: &Stack,
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
        stack.reveal(snapshot).await?
    };
    let exported = formats::all().export(&snapshot, format);
    let mut bytes = exported.map_err(|error| failed(&stack.name().short(), error))?;
    if is_masked {
        mark_as_masked(&mut bytes);
    }
    Ok(bytes)
}

/// Puts the mark into a JSON object by which an import tells that secrets are missing.
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
            .with_hint("export it in our own format: `statectl export --format native`"),
    }
}

/// Writes a file that only its owner may read. Without `replace` it must be new; with it, the old content stays until
/// the new one is complete.
fn write_file(file: &Path, bytes: &[u8], replace: bool) -> Result<(), CliError> {
    let name = file.display().to_string();
    let written = if replace {
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        let written = create_private(&beside, bytes).and_then(|()| std::fs::rename(&beside, file));
        if written.is_err() && std::fs::remove_file(&beside).is_err() {
            // It was never made.
        }
        written
    } else {
        create_private(file, bytes)
    };
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => CliError::refused(name, "the file is there already")
            .with_hint("replace it with `--force`, or name another file"),
        _ => CliError::io(name, &source).with_hint("name a file in a folder that you may write to"),
    })
}

//! `verify`: check every stored byte that counts, and every integrity rule.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Report;
use crate::render::page::Style;
use crate::store;
use serde::Serialize;
use state_core::verify::{Note, Violation};

/// Check the stack: digests, the chain of the journal, and every integrity rule.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the whole history too, and compare each checkpoint with what led to it.
    #[arg(long)]
    deep: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Verified {
    stack: String,
    deep: bool,
    valid: bool,
    frames: u64,
    snapshots: u64,
    revisions: u64,
    entries: u64,
    violations: Vec<Violation>,
    notes: Vec<Note>,
}

/// Verifies.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let stack = store::open_stack(context).await?;
    let found = stack.verify(args.deep).await?;
    let verified = Verified {
        stack: stack.name().to_string(),
        deep: args.deep,
        valid: found.report.is_valid(),
        frames: found.frames,
        snapshots: found.snapshots,
        revisions: found.revisions,
        entries: found.entries,
        violations: found.report.violations,
        notes: found.report.notes,
    };
    let report = Report::new(context, "verify", &verified, Vec::new(), |page| {
        page.line(format_args!(
            "checked stack {}: {} journal frames, {} snapshots, {} revisions, {} entries",
            stack.name().short(),
            verified.frames,
            verified.snapshots,
            verified.revisions,
            verified.entries
        ));
        for violation in &verified.violations {
            page.styled(Style::Bad, "violation:");
            page.line(format_args!(" {violation}"));
        }
        for note in &verified.notes {
            page.line(format_args!("note: {note}"));
        }
        if verified.valid {
            page.styled(Style::Good, "no violations");
        } else {
            page.styled(Style::Bad, &format!("violations: {}", verified.violations.len()));
        }
        page.space("\n");
    })?;
    Ok(if verified.valid {
        report
    } else {
        report.with_code(ExitCode::Integrity)
    })
}

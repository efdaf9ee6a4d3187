//! The command `copy`: copies stacks with their whole history to another store.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::output::to_stderr;
use crate::render::visible;
use crate::settings;
use crate::store;
use crate::store::beside_damage::described;
use serde::Serialize;
use state_core::StackName;
use state_core::backend::Opening;
use state_manager::{CopyReport, Stacks};

/// Copy stacks with their history to another store
///
/// Copies the stack named by `--stack`, or all stacks, byte for byte; no key is needed. Run an interrupted copy again to
/// finish it. A later copy to the same store writes only what is new, and is refused if the copy was changed by itself or
/// the data key was replaced since. After copying, source and copy are compared. The copy has the same lineage as its
/// source: use only one of the two for further changes. If a stack can't be copied, the others still are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the source store
    #[arg(value_name = "FROM")]
    from: String,
    /// URL of the target store, which is created if missing
    #[arg(value_name = "TO")]
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct StoreCopyReport {
    from: String,
    to: String,
    stacks: Vec<CopyReport>,
    /// Names of the stacks that couldn't be copied. A warning gives the reason for each.
    not_copied: Vec<String>,
}

/// The stacks that could not be copied, beside others that could.
#[derive(Default)]
struct NotCopied {
    names: Vec<String>,
    warnings: Vec<String>,
    /// The first failure: that of the command.
    first: Option<CliError>,
}

impl NotCopied {
    /// Records a failure, so that the other stacks are copied nevertheless.
    ///
    /// # Errors
    /// The failure, if it isn't one of this stack: all other stacks would fail too.
    fn add(&mut self, name: &StackName, error: CliError) -> Result<(), CliError> {
        if !matches!(
            error.code,
            ExitCode::NotFound
                | ExitCode::Undecipherable
                | ExitCode::Conflict
                | ExitCode::Integrity
                | ExitCode::Format
        ) {
            return Err(error);
        }
        self.names.push(name.to_string());
        self.warnings.push(format!(
            "stack {} isn't copied: {}",
            name.short(),
            described(&error)
        ));
        self.first.get_or_insert(error);
        Ok(())
    }
}

/// Runs the command `copy` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (from, to) = (settings::url_of(&args.from)?, settings::url_of(&args.to)?);
    let source = context.store.connect(&from, Opening::Existing).await;
    let source = source.map_err(|error| store::missing_store(error, &from))?;
    let mut failed = NotCopied::default();
    let names = match &context.settings.stack {
        Some(name) => vec![name.clone()],
        None => names_of(context, &from, &source, &mut failed).await?,
    };
    if names.is_empty() && failed.first.is_none() {
        let object = format!("store {}", settings::shown(&from));
        return Err(CliError::not_found(object, "the store has no stacks to copy"));
    }
    let mut found = Vec::new();
    for name in &names {
        match context.store.find(&source, name).await {
            Ok(stack) => found.push(stack),
            Err(error) => failed.add(name, error)?,
        }
    }
    let mut stacks = Vec::new();
    if !found.is_empty() {
        let target = context.store.connect(&to, Opening::Create).await;
        let target = target.map_err(store::not_opened)?;
        for stack in &found {
            let name = stack.name();
            if context.output.shows_progress() {
                to_stderr(&format!("copying stack {}\n", visible(&name.short())));
            }
            match target.copy_from(stack).await {
                Ok(copied) => stacks.push(copied),
                Err(error) => failed.add(name, error.into())?,
            }
        }
    }
    if let Some(error) = failed.first.as_ref().filter(|_| failed.warnings.is_empty()) {
        // The damage is in no stack, for example a folder in the place of a name.
        failed.warnings.push(described(error));
    }
    let code = match failed.first {
        Some(error) if stacks.is_empty() && failed.warnings.len() == 1 => return Err(error),
        Some(error) => error.code,
        None => ExitCode::Done,
    };
    let done = StoreCopyReport {
        from: settings::shown(&from),
        to: settings::shown(&to),
        stacks,
        not_copied: failed.names,
    };
    let report = context.report("copy", &done, failed.warnings, |page| {
        for line in &done.stacks {
            page.line(describe(line));
        }
    })?;
    // An incomplete copy must not look like a complete one.
    Ok(report.with_code(code))
}

/// The names of all stacks of the source, also beside damaged ones.
async fn names_of(
    context: &Context,
    from: &str,
    source: &Stacks,
    failed: &mut NotCopied,
) -> Result<Vec<StackName>, CliError> {
    let refused = match source.names().await {
        Ok(names) => return Ok(names),
        Err(error) => error,
    };
    let found = context.store.beside_damage(from, source, refused).await?;
    failed.names.extend(found.orphans.iter().map(ToString::to_string));
    failed.warnings.extend(found.warnings);
    failed.first = Some(found.refused);
    Ok(found.names)
}

fn describe(copied: &CopyReport) -> String {
    let written = copied.written;
    let word = match (copied.was_there, written.head) {
        (false, _) => "copied".to_owned(),
        (true, false) => "already up to date".to_owned(),
        (true, true) => format!(
            "brought up to date with {} and {}",
            count(written.frames, "frame", "frames"),
            count(written.objects, "object", "objects")
        ),
    };
    format!(
        "stack {}: {word}; compared {} and {}",
        copied.name,
        count(copied.frames, "frame", "frames"),
        count(copied.objects, "object", "objects")
    )
}

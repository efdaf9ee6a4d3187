//! The command `logs`: prints the log lines of engines and providers that were stored during updates.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::glob;
use crate::output::{Report, stream_line};
use crate::render::time::Since;
use crate::render::{Page, Style};
use serde::Serialize;
use state_core::{Error, LogLevel, Timestamp};
use state_manager::{LogQuery, RevisionSpec, StoredLine, View};

/// Print the logs of updates, oldest first
///
/// With `--json`, each log line is printed as one JSON document per line. Logs of an encrypted stack are encrypted too, and
/// are printed only with `--show-secrets`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only print lines about this resource
    ///
    /// Includes the resources below it. With `*` (any text) or `?` (one character), prints lines about all resources whose
    /// address matches.
    #[arg(long, value_name = "GLOB")]
    address: Option<String>,
    /// Minimum level: `trace`, `debug`, `info`, `warning` or `error`
    #[arg(long, value_name = "LEVEL")]
    level: Option<LogLevel>,
    /// Only print lines since this time
    ///
    /// A duration before now (`2h`, `7d`), a date (`2026-05-30`), or a date and time (RFC 3339).
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Only print lines before this time
    #[arg(long, value_name = "WHEN")]
    until: Option<Since>,
    /// Only print lines of the update that wrote this revision
    ///
    /// A revision is named by its id, a prefix of its id, its serial, `@` (current) or `@-` (the one before).
    #[arg(long, value_name = "REV")]
    update: Option<RevisionSpec>,
}

#[derive(Serialize)]
struct Line<'a> {
    update: u64,
    time: &'a Timestamp,
    level: LogLevel,
    address: Option<&'a str>,
    source: &'a str,
    message: &'a str,
}

impl<'a> From<&'a StoredLine> for Line<'a> {
    fn from(stored: &'a StoredLine) -> Self {
        let line = &stored.line;
        Self {
            update: stored.update.get(),
            time: &line.time,
            level: line.level,
            address: line.address.as_ref().map(|address| address.as_str()),
            source: &line.source,
            message: &line.message,
        }
    }
}

/// Runs the command `logs` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (view, _) = context.store.read_at(None).await?;
    let (query, pattern) = query(context, args, &view).await?;
    let fits = |line: &&StoredLine| {
        let address = line.line.address.as_ref();
        pattern.is_none_or(|pattern| address.is_some_and(|address| glob::matches(pattern, address.as_str())))
    };
    let mut logs = view.log_walk(&query).await?;
    let printed = async {
        let mut damaged = None;
        loop {
            let lines = match logs.next().await {
                Ok(Some(lines)) => lines,
                Ok(None) => break,
                // A damaged log doesn't hide those of later updates.
                Err(error @ Error::Corrupt { .. }) => {
                    damaged.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !print_lines(context, lines.iter().filter(fits))? {
                break;
            }
        }
        damaged.map_or_else(|| Ok(Report::empty()), |error| Err(CliError::from(error)))
    };
    let printed = printed.await;
    // An error about a later log doesn't hide what is known about the earlier ones.
    let what = "some log messages are printed as `(sealed)`";
    context.standings.unopened(&view.name, what, logs.unopened_keys());
    context.standings.missing_logs(&view.name, logs.missing());
    printed
}

/// Prints the lines of one update. Returns false if the reader of stdout has closed it.
fn print_lines<'a>(context: &Context, lines: impl Iterator<Item = &'a StoredLine>) -> Result<bool, CliError> {
    let lines = lines.map(Line::from);
    if !context.output.json {
        return context
            .output
            .stream_page(|page| lines.for_each(|line| print(page, &line)));
    }
    for line in lines {
        if !stream_line("logs", &line)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The query for the library, and the address pattern. The library can't match patterns: the caller must filter the
/// lines.
async fn query<'a>(
    context: &Context,
    args: &'a Args,
    view: &View,
) -> Result<(LogQuery, Option<&'a str>), CliError> {
    let now = context.now();
    let moment = |flag, given: &Option<Since>| {
        let moment = given.as_ref().map(|given| given.moment(flag, &now)).transpose();
        moment.map(|moment| moment.map(|moment| Timestamp::new(moment.to_string())))
    };
    let pattern = args.address.as_deref();
    let (matched, named) = match pattern {
        Some(pattern) if pattern.contains(['*', '?']) => (Some(pattern), None),
        other => (None, other),
    };
    let update = match &args.update {
        Some(wanted) => Some(view.resolve(wanted).await??.serial()),
        None => None,
    };
    let query = LogQuery {
        address: named.map(str::parse).transpose()?,
        level: args.level,
        since: moment("--since", &args.since)?,
        until: moment("--until", &args.until)?,
        update,
        limit: None,
        reveal: context.settings.show_secrets,
    };
    Ok((query, matched))
}

fn print(page: &mut Page, line: &Line<'_>) {
    let style = match line.level {
        LogLevel::Error => Style::Bad,
        LogLevel::Warning => Style::Warn,
        LogLevel::Info => Style::Plain,
        LogLevel::Trace | LogLevel::Debug => Style::Dim,
    };
    page.styled(Style::Dim, line.time.as_str());
    page.styled(style, &format!(" {:<7} ", line.level.name()));
    let about = [line.source, line.address.unwrap_or_default()].into_iter();
    for part in about.filter(|part| !part.is_empty()) {
        page.styled(Style::Bold, part);
        page.styled(Style::Plain, ": ");
    }
    let mut message = line.message.lines();
    page.line(message.next().unwrap_or_default());
    for more in message {
        page.block(more);
    }
}

//! All printing: reports go to stdout, warnings and errors to stderr. With `--json`, reports and errors are JSON documents
//! on stdout.
//!
//! A closed pipe isn't an error: a reader such as `head` may stop reading early.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::misplaced::without_identities;
use crate::render::{Page, visible};
use crate::settings::{Color, Settings};
use serde::Serialize;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};

/// Format version of the JSON documents that `--json` prints.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Which of the standard streams are terminals, and which of them get colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    stdin: bool,
    stderr: bool,
    /// Whether stdout is a terminal.
    pub(crate) stdout: bool,
    pub(crate) color_stdout: bool,
    pub(crate) color_stderr: bool,
}

impl Terminal {
    /// Inspects the three streams, and the variables NO_COLOR, CLICOLOR_FORCE and TERM.
    pub(crate) fn detect(color: Color) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let automatic = |terminal: bool| {
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !no_color && (set("CLICOLOR_FORCE") || (terminal && !dumb))
        };
        let paints = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => automatic(terminal),
        };
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        Self {
            stdin: std::io::stdin().is_terminal(),
            stderr,
            stdout,
            color_stdout: paints(stdout),
            color_stderr: paints(stderr),
        }
    }

    /// Whether a user can see a question and answer it.
    pub(crate) const fn can_ask(&self) -> bool {
        self.stdin && self.stderr
    }
}

/// The output of a command, printed when the command ends.
#[derive(Debug)]
pub(crate) struct Report {
    body: Vec<u8>,
    warnings: Vec<String>,
    code: ExitCode,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope<'a, T> {
    kind: &'a str,
    format_version: u32,
    data: T,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ErrorEnvelope<'a> {
    kind: &'static str,
    format_version: u32,
    error: crate::error::ErrorView<'a>,
}

impl Report {
    /// A report of bytes that are printed unchanged.
    pub(crate) const fn raw(body: Vec<u8>, warnings: Vec<String>) -> Self {
        Self {
            body,
            warnings,
            code: ExitCode::Done,
        }
    }

    /// The empty report of a command that has already printed its output.
    pub(crate) const fn empty() -> Self {
        Self::raw(Vec::new(), Vec::new())
    }

    /// Several reports as one. Its exit code is the most severe one: integrity before authenticity.
    pub(crate) fn joined(reports: Vec<Self>) -> Self {
        let mut joined = Self::empty();
        for report in reports {
            joined.body.extend(report.body);
            joined.warnings.extend(report.warnings);
            if joined.code != ExitCode::Integrity && report.code != ExitCode::Done {
                joined.code = report.code;
            }
        }
        joined
    }

    /// The same report with more warnings on stderr. A JSON document that is already built doesn't contain them.
    pub(crate) fn warned(mut self, more: Vec<String>) -> Self {
        self.warnings.extend(more);
        self
    }

    /// The same report with another exit code.
    pub(crate) const fn with_code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// The same report with another exit code if the condition is true.
    pub(crate) const fn with_code_if(self, condition: bool, code: ExitCode) -> Self {
        if condition { self.with_code(code) } else { self }
    }
}

/// The output settings of a command: JSON or text, and the terminals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) terminal: Terminal,
}

impl Output {
    /// Creates the output settings from the flags and the process's streams.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            json: settings.json,
            terminal: Terminal::detect(settings.color),
        }
    }

    /// Whether progress is displayed: only on a terminal, and not with `--json`.
    pub(crate) const fn shows_progress(&self) -> bool {
        self.terminal.stderr && !self.json
    }

    /// Prints a page on stderr immediately. Prints nothing with `--json`.
    pub(crate) fn announce(&self, fill: impl FnOnce(&mut Page)) {
        if !self.json {
            to_stderr(&Page::text(false, fill));
        }
    }

    /// Like [`announce`](Self::announce), with colours if stderr supports them.
    pub(crate) fn announce_colored(&self, fill: impl FnOnce(&mut Page)) {
        if !self.json {
            to_stderr(&Page::text(self.terminal.color_stderr, fill));
        }
    }

    /// Prints a part of the output on stdout immediately, for output that is too long for memory. Returns false if the reader
    /// of stdout has closed it.
    pub(crate) fn stream_page(&self, fill: impl FnOnce(&mut Page)) -> Result<bool, CliError> {
        let text = Page::text(self.terminal.color_stdout, fill);
        written(std::io::stdout().lock().write_all(text.as_bytes()))
    }

    /// Prints the warnings and the body of a report.
    pub(crate) fn print_report(&self, report: &Report) -> Result<ExitCode, CliError> {
        for warning in &report.warnings {
            self.announce_colored(|page| page.warning(warning));
        }
        to_stdout(&report.body).map_err(|source| CliError::io("stdout", &source))?;
        Ok(report.code)
    }

    /// Prints an error on stderr, and with `--json` also as a JSON document on stdout.
    pub(crate) fn print_error(&self, error: &CliError) -> ExitCode {
        let error = &error.without_identities();
        if self.json {
            print_json_error(error);
        }
        self.announce_colored(|page| page.error(error));
        error.code
    }
}

/// Prints one JSON document as a line immediately, for output that is too long for memory.
///
/// Returns false if the reader of stdout has closed it.
pub(crate) fn stream_line(kind: &'static str, data: &impl Serialize) -> Result<bool, CliError> {
    let line = envelope_line(kind, data, &[])?;
    written(std::io::stdout().lock().write_all(&line))
}

/// Converts the result of a write to stdout: false if the reader has closed it.
fn written(result: std::io::Result<()>) -> Result<bool, CliError> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result
            .map(|()| true)
            .map_err(|source| CliError::io("stdout", &source)),
    }
}

/// Prints one JSON document while it is serialized, for data that is too large for memory. Returns false if the reader of
/// stdout closed it before the end.
pub(crate) fn print_document(
    kind: &'static str,
    data: &impl Serialize,
    warnings: &[String],
) -> Result<bool, CliError> {
    let envelope = Envelope {
        kind,
        format_version: FORMAT_VERSION,
        data,
        warnings,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let printed = serde_json::to_writer(&mut out, &envelope).map_err(std::io::Error::from);
    written(
        printed
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush()),
    )
}

pub(crate) fn envelope_line(
    kind: &str,
    data: &impl Serialize,
    warnings: &[String],
) -> Result<Vec<u8>, CliError> {
    json_line(&Envelope {
        kind,
        format_version: FORMAT_VERSION,
        data,
        warnings,
    })
}

fn json_line(value: &impl Serialize) -> Result<Vec<u8>, CliError> {
    let mut line =
        serde_json::to_vec(value).map_err(|source| CliError::failed("JSON output", &source.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// Prints clap's output: help and version on stdout, usage errors on stderr or as JSON.
pub(crate) fn print_usage(error: &clap::Error, json: bool) -> ExitCode {
    let code = if error.use_stderr() {
        ExitCode::Usage
    } else {
        ExitCode::Done
    };
    let rendered = error.render().to_string();
    let text = without_identities(&rendered);
    if json && code == ExitCode::Usage {
        let message = text.lines().next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        print_json_error(
            &CliError::usage("command line", message)
                .with_hint("see `statectl help` and `statectl help COMMAND`"),
        );
    } else if text != rendered {
        to_stderr(&text);
    } else if error.print().is_err() {
        // The stream is closed, so there is nowhere to report the error.
    }
    code
}

fn print_json_error(error: &CliError) {
    let envelope = ErrorEnvelope {
        kind: "error",
        format_version: FORMAT_VERSION,
        error: error.view(),
    };
    let printed = json_line(&envelope).map(|line| to_stdout(&line));
    if !matches!(printed, Ok(Ok(()))) {
        to_stderr(&format!("error: {}\n", error.message));
    }
}

fn to_stdout(bytes: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints on stderr immediately.
pub(crate) fn to_stderr(text: &str) {
    if std::io::stderr().lock().write_all(text.as_bytes()).is_err() {
        // Stderr is closed, so there is nowhere to report the error.
    }
}

/// Prints a line on stderr immediately, with control characters escaped.
pub(crate) fn line_to_stderr(line: &str) {
    to_stderr(&format!("{}\n", visible(line)));
}

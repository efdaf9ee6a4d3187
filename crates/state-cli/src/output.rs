//! The only place that prints: reports to stdout, warnings and errors to stderr, one JSON envelope for both.
//!
//! A closed pipe ends quietly: whoever stopped reading has what they wanted.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::render::{Page, visible};
use crate::settings::{Color, Settings};
use serde::Serialize;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};

/// The version of the JSON that `--json` prints.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Which streams are terminals, and which of them get colours.
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
    /// Looks at the three streams, and at NO_COLOR, CLICOLOR_FORCE and TERM.
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

    /// Whether somebody sees a question and can answer it.
    pub(crate) const fn can_ask(&self) -> bool {
        self.stdin && self.stderr
    }
}

/// What a command has to say when it is done.
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
    /// Bytes that go out as they are.
    pub(crate) const fn raw(body: Vec<u8>, warnings: Vec<String>) -> Self {
        Self {
            body,
            warnings,
            code: ExitCode::Done,
        }
    }

    /// The report of a command that printed everything while it ran.
    pub(crate) const fn empty() -> Self {
        Self::raw(Vec::new(), Vec::new())
    }

    /// The same with more warnings, which `--json` prints on no document that was put together before.
    pub(crate) fn warned(mut self, more: Vec<String>) -> Self {
        self.warnings.extend(more);
        self
    }

    /// The same with another exit code.
    pub(crate) const fn with_code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// The same with another exit code if the condition holds.
    pub(crate) const fn with_code_if(self, condition: bool, code: ExitCode) -> Self {
        if condition { self.with_code(code) } else { self }
    }
}

/// How a command prints: as JSON or as text, and for which terminals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) terminal: Terminal,
}

impl Output {
    /// Looks at the process's streams.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            json: settings.json,
            terminal: Terminal::detect(settings.color),
        }
    }

    /// Whether a person at a terminal can follow what a command does.
    pub(crate) const fn shows_progress(&self) -> bool {
        self.terminal.stderr && !self.json
    }

    /// Prints a page on stderr at once, before a command ends; nothing with `--json`.
    pub(crate) fn announce(&self, fill: impl FnOnce(&mut Page)) {
        if !self.json {
            to_stderr(&Page::text(false, fill));
        }
    }

    /// As [`announce`](Self::announce), in colours where stderr gets them.
    pub(crate) fn announce_colored(&self, fill: impl FnOnce(&mut Page)) {
        if !self.json {
            to_stderr(&Page::text(self.terminal.color_stderr, fill));
        }
    }

    /// Prints a part of what a command has to say at once, for what is too long to be held. Returns whether anybody still
    /// reads.
    pub(crate) fn stream_page(&self, fill: impl FnOnce(&mut Page)) -> Result<bool, CliError> {
        let text = Page::text(self.terminal.color_stdout, fill);
        written(std::io::stdout().lock().write_all(text.as_bytes()))
    }

    /// Prints what a command has to say.
    pub(crate) fn print_report(&self, report: &Report) -> Result<ExitCode, CliError> {
        for warning in &report.warnings {
            self.announce_colored(|page| page.warning(warning));
        }
        to_stdout(&report.body).map_err(|source| CliError::io("stdout", &source))?;
        Ok(report.code)
    }

    /// Prints an error: on stderr, or with `--json` as the one thing on stdout.
    pub(crate) fn print_error(&self, error: &CliError) -> ExitCode {
        if self.json {
            print_json_error(error);
        }
        self.announce_colored(|page| page.error(error));
        error.code
    }
}

/// Prints one envelope a line, each at once, for what is too long to be held: JSON lines.
///
/// Returns whether anybody still reads.
pub(crate) fn stream_line(kind: &'static str, data: &impl Serialize) -> Result<bool, CliError> {
    let line = envelope_line(kind, data, &[])?;
    written(std::io::stdout().lock().write_all(&line))
}

/// The result of a write to stdout: whether anybody still reads.
fn written(result: std::io::Result<()>) -> Result<bool, CliError> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result
            .map(|()| true)
            .map_err(|source| CliError::io("stdout", &source)),
    }
}

/// Prints the one envelope as it is made, for what is too long to be held. Returns whether anybody read it to its end.
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
    let mut line = serde_json::to_vec(value)
        .map_err(|source| CliError::failed("the JSON output", &source.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// Prints what clap has to say: help and version on stdout, a misuse on stderr or as JSON.
pub(crate) fn print_usage(error: &clap::Error, json: bool) -> ExitCode {
    let code = if error.use_stderr() {
        ExitCode::Usage
    } else {
        ExitCode::Done
    };
    if json && code == ExitCode::Usage {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        print_json_error(
            &CliError::usage("the command line", message)
                .with_hint("see `statectl help` and `statectl help COMMAND`"),
        );
    } else if error.print().is_err() {
        // Nobody reads: nothing to add.
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

/// Prints at once, for what must be seen before a command ends.
pub(crate) fn to_stderr(text: &str) {
    if std::io::stderr().lock().write_all(text.as_bytes()).is_err() {
        // There is no third stream to complain on.
    }
}

/// Prints a line on stderr at once; control characters in it show as escapes.
pub(crate) fn line_to_stderr(line: &str) {
    to_stderr(&format!("{}\n", visible(line)));
}

//! Errors as people and scripts get them: what failed, on which object, and the next command to run.

use crate::exit::ExitCode;
use serde::Serialize;
use state_core::verify::Violation;
use state_core::{Error, ErrorKind, ParseIdError, nearest};
use state_engine::EngineError;
use state_engine::program::{Problem, ProgramError};
use state_manager::UnresolvedRevision;
use std::error::Error as _;

/// What a command fails with.
#[derive(Debug, Serialize)]
pub(crate) struct CliError {
    #[serde(skip)]
    pub(crate) code: ExitCode,
    /// What failed, the object included.
    pub(crate) message: String,
    /// Which object.
    pub(crate) object: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// All integrity violations, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) violations: Vec<Violation>,
    /// All that is wrong with a document, in its order, where there is more than one thing.
    #[serde(skip_serializing_if = "<[ProblemView]>::is_empty")]
    pub(crate) problems: Box<[ProblemView]>,
}

/// One thing that is wrong with a document. A place that isn't known is 0.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemView {
    line: u64,
    column: u64,
    path: String,
    reason: String,
    hint: Option<String>,
    /// With the document's name and the place.
    #[serde(skip)]
    pub(crate) told: String,
}

/// An error in JSON.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ErrorView<'a> {
    code: ExitCode,
    exit_code: u8,
    #[serde(flatten)]
    error: &'a CliError,
}

impl CliError {
    /// An error about an object; the message is told behind the object's name.
    pub(crate) fn new(code: ExitCode, object: impl Into<String>, message: &str) -> Self {
        let object = object.into();
        Self {
            code,
            message: format!("{object}: {message}"),
            object,
            hint: None,
            violations: Vec::new(),
            problems: Box::default(),
        }
    }

    /// As [`Self::new`] with [`ExitCode::Failed`].
    pub(crate) fn failed(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Failed, object, message)
    }

    /// As [`Self::new`] with [`ExitCode::Usage`].
    pub(crate) fn usage(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Usage, object, message)
    }

    /// As [`Self::new`] with [`ExitCode::Refused`].
    pub(crate) fn refused(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Refused, object, message)
    }

    /// As [`Self::new`] with [`ExitCode::NotFound`].
    pub(crate) fn not_found(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::NotFound, object, message)
    }

    /// As [`Self::new`] with [`ExitCode::Undecipherable`].
    pub(crate) fn undecipherable(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Undecipherable, object, message)
    }

    /// As [`Self::new`] with [`ExitCode::Conflict`].
    pub(crate) fn conflict(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Conflict, object, message)
    }

    /// An error of the operating system about a file or the like.
    pub(crate) fn io(object: impl Into<String>, source: &std::io::Error) -> Self {
        Self::failed(object, &source.to_string())
    }

    /// The same with advice.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a hint at the name that may have been meant, and at the command that lists all names; else with
    /// another hint.
    pub(crate) fn with_nearest<'a>(
        self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
        listing: &str,
        otherwise: impl Into<String>,
    ) -> Self {
        match nearest(name, candidates) {
            Some(meant) => self.with_hint(format!("did you mean `{meant}`? {listing}")),
            None => self.with_hint(otherwise),
        }
    }

    /// Spells the commands in the hint as the user has to type them.
    pub(crate) fn with_invocation(mut self, invocation: &str) -> Self {
        self.hint = self
            .hint
            .map(|hint| hint.replace("`statectl ", &format!("`{invocation} ")));
        self
    }

    /// The error in JSON.
    pub(crate) fn view(&self) -> ErrorView<'_> {
        ErrorView {
            code: self.code,
            exit_code: self.code.code(),
            error: self,
        }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            let text = source.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = source.source();
        }
        let says = |signs: [&str; 2]| signs.iter().any(|sign| message.contains(sign));
        let advice = match &error {
            Error::Collected { .. } => Some(COLLECTED.to_owned()),
            Error::NoContainer { object } => Some(create_container(object)),
            Error::Denied { .. } if says(SKEWED) => Some(SKEW.to_owned()),
            Error::Unavailable { .. } if says(STRANGERS) => Some(UNTRUSTED.to_owned()),
            other => hint(other.kind()).map(str::to_owned),
        };
        Self {
            code: error.kind().into(),
            message,
            object: error.object().to_owned(),
            hint: advice,
            violations: match error {
                Error::Integrity { violations, .. } => violations,
                _ => Vec::new(),
            },
            problems: Box::default(),
        }
    }
}

impl From<ParseIdError> for CliError {
    fn from(error: ParseIdError) -> Self {
        Error::from(error).into()
    }
}

impl From<UnresolvedRevision> for CliError {
    fn from(error: UnresolvedRevision) -> Self {
        let (code, hint) = match error {
            UnresolvedRevision::Collected { .. } => (ExitCode::NotFound, COLLECTED),
            UnresolvedRevision::Ambiguous { .. } => (ExitCode::Usage, "give more of the id"),
            _ => (ExitCode::NotFound, "`statectl history` lists them"),
        };
        Self {
            message: error.to_string(),
            ..Self::new(code, format!("revision {}", error.spec()), "").with_hint(hint)
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::State(error) => error.into(),
            EngineError::Source { object, reason } => Self::failed(object, &reason),
            other => Self {
                message: other.to_string(),
                ..Self::failed("the run", "")
            },
        }
    }
}

impl From<ProgramError> for CliError {
    /// One problem is told as the error itself; several are listed.
    fn from(error: ProgramError) -> Self {
        let ProgramError { name, problems, .. } = error;
        let view = |problem: Problem| {
            let place = match problem.line {
                0 => name.clone(),
                line => format!("{name}:{line}:{}", problem.column),
            };
            ProblemView {
                told: format!("{place}: {problem}"),
                line: problem.line,
                column: problem.column,
                path: problem.path,
                reason: problem.reason,
                hint: problem.hint,
            }
        };
        let problems: Box<[ProblemView]> = problems.into_iter().map(view).collect();
        let message = match &*problems {
            [only] => only.told.clone(),
            several => format!("{name}: {} things are wrong", several.len()),
        };
        Self {
            message,
            problems,
            ..Self::failed(name, "")
        }
    }
}

/// What to do about a revision that is gone.
const COLLECTED: &str = "`statectl gc` dropped it; `statectl history` lists what is left";

/// What to do about a bucket that isn't there.
fn create_container(container: &str) -> String {
    format!(
        "create {container} first, with the tools of its cloud, or name another with `--backend URL`: statectl makes \
         stores in buckets, and no buckets"
    )
}

/// What to do about a server that can't prove who it is.
const UNTRUSTED: &str = "don't send anything there before you know who it is; if it is yours, have this machine trust the \
                         authority that signed its certificate (SSL_CERT_FILE)";

/// What an error says where a server's certificate was refused.
const STRANGERS: [&str; 2] = ["invalid peer certificate", "UnknownIssuer"];

/// What stores call a request whose signature is too old or too new.
const SKEWED: [&str; 2] = ["RequestTimeTooSkewed", "RequestExpired"];

/// What to do about that.
const SKEW: &str =
    "set this machine's clock: the store refuses requests that are signed with another time than its own";

/// What to do about it, where the place of the error knows nothing better.
fn hint(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound => "see what there is with `statectl stack ls`",
        ErrorKind::NoCurrent => "give the stack a state first: `statectl import FILE`",
        ErrorKind::Locked => {
            "wait for the holder; if it is gone for good, `statectl lock status` shows what to break: \
             `statectl lock break`, or for a client lock `statectl lock break --id ID`"
        }
        ErrorKind::Conflict => {
            "look again with `statectl history` and `statectl pending list`, then decide anew"
        }
        ErrorKind::Fenced | ErrorKind::Indeterminate => {
            "see what took effect with `statectl history` and `statectl pending list` before you repeat anything"
        }
        ErrorKind::NotApplied => "nothing happened: mend the cause and run it again",
        ErrorKind::Corrupt => {
            "don't write to it; find the extent with `statectl verify --deep`, then restore the files from a copy"
        }
        ErrorKind::Integrity => {
            "mend the state it names; `statectl verify` lists every violation of the stored one"
        }
        ErrorKind::Format => "use the build of statectl that wrote it, or a newer one",
        ErrorKind::Unsupported => "use another store, or a build with what it names",
        ErrorKind::Sealed => {
            "give the identity that opens it with --identity FILE, STATECTL_IDENTITY or STATECTL_PASSPHRASE"
        }
        ErrorKind::Distrusted => {
            "ask those who work with the stack what happened; if what is there now is right, say so: \
             `statectl trust --accept`"
        }
        ErrorKind::Denied => "get access to the store, its files or its credentials, then run it again",
        ErrorKind::Unavailable => "check that the store is there and answers, then run it again",
        ErrorKind::Closed => "run it again: the stack is opened anew",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::CliError;
    use crate::exit::ExitCode;
    use state_core::Error;

    #[test]
    fn an_error_names_its_cause_once() {
        let error = CliError::from(Error::Unavailable {
            object: "stacks/x/head.json".into(),
            source: "no route to host".into(),
        });
        assert_eq!(
            error.message,
            "stacks/x/head.json can't be reached: no route to host"
        );
        assert_eq!(error.code, ExitCode::Unreachable);
        assert_eq!(error.object, "stacks/x/head.json");
    }

    #[test]
    fn a_hint_repeats_the_flags_that_led_here() {
        let error = CliError::from(Error::not_found("stack x")).with_invocation("statectl --backend /b");
        assert_eq!(
            error.hint.as_deref(),
            Some("see what there is with `statectl --backend /b stack ls`")
        );
    }
}

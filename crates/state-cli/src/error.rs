//! Errors as users and scripts see them: what failed, on which object, and the next command to run.

use crate::exit::ExitCode;
use crate::invocation::{Invocation, quoted};
use crate::misplaced::without_identities;
use serde::Serialize;
use state_core::verify::Violation;
use state_core::{Error, ErrorKind, Lineage, ParseIdError, StackName, nearest};
use state_engine::EngineError;
use state_engine::program::{Problem, ProgramError};
use state_manager::UnresolvedRevision;
use std::error::Error as _;

/// The error of a command.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CliError {
    #[serde(skip)]
    pub(crate) code: ExitCode,
    /// The message, including the object.
    pub(crate) message: String,
    /// The object that the error is about.
    pub(crate) object: String,
    /// What the user can do next.
    pub(crate) hint: Option<String>,
    /// All integrity violations, for integrity errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) violations: Vec<Violation>,
    /// All problems of a document, in document order.
    #[serde(skip_serializing_if = "<[ProblemView]>::is_empty")]
    pub(crate) problems: Box<[ProblemView]>,
}

/// One problem of a document. Line and column are 0 if unknown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProblemView {
    line: u64,
    column: u64,
    path: String,
    reason: String,
    hint: Option<String>,
    /// The problem as text, with the document's name and the position.
    #[serde(skip)]
    pub(crate) text: String,
}

/// An error as JSON.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ErrorView<'a> {
    code: ExitCode,
    exit_code: u8,
    #[serde(flatten)]
    error: &'a CliError,
}

impl CliError {
    /// Creates an error about an object, with the message `object: message`.
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

    /// Like [`Self::new`] with [`ExitCode::Failed`].
    pub(crate) fn failed(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Failed, object, message)
    }

    /// Like [`Self::new`] with [`ExitCode::Usage`].
    pub(crate) fn usage(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Usage, object, message)
    }

    /// Like [`Self::new`] with [`ExitCode::Refused`].
    pub(crate) fn refused(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Refused, object, message)
    }

    /// Like [`Self::new`] with [`ExitCode::NotFound`].
    pub(crate) fn not_found(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::NotFound, object, message)
    }

    /// Like [`Self::new`] with [`ExitCode::Undecipherable`].
    pub(crate) fn undecipherable(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Undecipherable, object, message)
    }

    /// Like [`Self::new`] with [`ExitCode::Conflict`].
    pub(crate) fn conflict(object: impl Into<String>, message: &str) -> Self {
        Self::new(ExitCode::Conflict, object, message)
    }

    /// An error of the operating system about a file or another system object.
    pub(crate) fn io(object: impl Into<String>, source: &std::io::Error) -> Self {
        Self::failed(object, &source.to_string())
    }

    /// The same error without the secret part of age identities that the user passed in a wrong place.
    pub(crate) fn without_identities(&self) -> Self {
        let mask = |text: &String| without_identities(text).into_owned();
        Self {
            message: mask(&self.message),
            object: mask(&self.object),
            hint: self.hint.as_ref().map(mask),
            ..self.clone()
        }
    }

    /// The same error with a hint.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with a hint that suggests the most similar name and the command that lists all names. If no name is
    /// similar, uses the hint `otherwise`.
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

    /// Adds the user's `--backend` flag, and the stack that the user named or the error is about, to the commands in the
    /// hint, so that they can be pasted.
    pub(crate) fn with_invocation(mut self, invocation: &Invocation) -> Self {
        // A stack that doesn't exist can be in no other command.
        let stack = stack_of(&self.object).filter(|_| self.code != ExitCode::NotFound);
        let invocation = invocation.or_stack(stack.as_ref());
        self.hint = self.hint.map(|hint| invocation.apply(&hint));
        self
    }

    /// The error for its JSON document.
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
        let mut message = match &error {
            // The violations follow as a list.
            Error::Integrity { object, violations } if violations.len() > 1 => {
                format!("{object} breaks {} integrity rules", violations.len())
            }
            other => other.to_string(),
        };
        let mut cause = error.source();
        while let Some(source) = cause {
            let text = source.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = source.source();
        }
        let contains = |signs: &[&str]| signs.iter().any(|sign| message.contains(sign));
        let advice = match &error {
            Error::Collected { .. } => Some(COLLECTED.to_owned()),
            Error::NoContainer { object } => Some(create_container(object)),
            Error::Denied { .. } if contains(CLOCK_SKEW) => Some(CLOCK_SKEW_HINT.to_owned()),
            Error::NotApplied { .. } if contains(NOT_REMEMBERED) => Some(NOT_REMEMBERED_HINT.to_owned()),
            Error::Distrusted { .. } if contains(SPOOLED) => Some(SPOOLED_HINT.to_owned()),
            Error::Distrusted { .. } | Error::Sealed { .. } if contains(FORGED) => {
                Some(FORGED_HINT.to_owned())
            }
            Error::Distrusted { .. } if contains(UNOPENED_EXPECTED) => {
                Some(UNOPENED_EXPECTED_HINT.to_owned())
            }
            Error::Distrusted { object, .. } if contains(LOST_NAME) => Some(restore_name(object)),
            Error::Distrusted { .. } if contains(DAMAGED_STACK) => Some(DAMAGED_STACK_HINT.to_owned()),
            Error::Distrusted { .. } | Error::Conflict { .. } if contains(UNEXPECTED) => {
                Some(UNEXPECTED_HINT.to_owned())
            }
            Error::Sealed { .. } | Error::Conflict { .. } if contains(NO_DATA_KEY) => {
                Some(NO_DATA_KEY_HINT.to_owned())
            }
            Error::Sealed { .. } if contains(UNTRUSTED_PLUGIN) => Some(UNTRUSTED_PLUGIN_HINT.to_owned()),
            Error::Distrusted { object, .. } if contains(UNOPENED) => Some(other_identity(object)),
            Error::Distrusted { object, .. } => Some(accept(object)),
            Error::Invalid { .. } if contains(SHORT_PASSPHRASE) => Some(SHORT_PASSPHRASE_HINT.to_owned()),
            Error::Unavailable { .. } if contains(BAD_CERTIFICATE) => Some(BAD_CERTIFICATE_HINT.to_owned()),
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
            UnresolvedRevision::Ambiguous { .. } => (ExitCode::Usage, "use a longer prefix of the id"),
            _ => (ExitCode::NotFound, "list revisions with `statectl history`"),
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
                ..Self::failed("run", "")
            },
        }
    }
}

impl From<ProgramError> for CliError {
    /// A single problem becomes the message of the error; several are counted and listed.
    fn from(error: ProgramError) -> Self {
        let ProgramError { name, problems, .. } = error;
        let view = |problem: Problem| {
            let place = match problem.line {
                0 => name.clone(),
                line => format!("{name}:{line}:{}", problem.column),
            };
            ProblemView {
                text: format!("{place}: {problem}"),
                line: problem.line,
                column: problem.column,
                path: problem.path,
                reason: problem.reason,
                hint: problem.hint,
            }
        };
        let problems: Box<[ProblemView]> = problems.into_iter().map(view).collect();
        let message = match &*problems {
            [only] => only.text.clone(),
            several => format!("{name}: {} problems", several.len()),
        };
        Self {
            message,
            problems,
            ..Self::failed(name, "")
        }
    }
}

/// Hint for a revision before the beginning of the history.
const COLLECTED: &str = "`statectl gc` collected the revision, or a salvage or a restore replaced the history before it; list the \
                         others with `statectl history`";

/// The stack that an error is about, by its object: `stack shop`, `head of stack shop`. None for a stack of which only the
/// lineage is known: `--stack` takes no lineage.
fn stack_of(object: &str) -> Option<StackName> {
    let (_, name) = object.rsplit_once("stack ")?;
    match name.parse::<Lineage>() {
        Ok(_) => None,
        Err(_) => name.parse().ok(),
    }
}

/// Hint for a stack that differs from what this client remembers of it.
fn accept(object: &str) -> String {
    format!(
        "ask the other users of the stack whether the change was intended; if so, run {}",
        accepting(object)
    )
}

/// Text of errors about a name whose pointer is gone or leads elsewhere, while its stack is still there.
const LOST_NAME: &[&str] = &["the name was deleted or exchanged in the store"];

/// Text of errors about a stack whose damage hides whether it gave up its name.
const DAMAGED_STACK: &[&str] = &["that stack is damaged, so"];
const DAMAGED_STACK_HINT: &str = "find the damage with `statectl verify --deep`, repair it with `statectl salvage`, then run the command again";

/// Hint for a name whose pointer is gone or leads elsewhere.
fn restore_name(object: &str) -> String {
    format!(
        "run `statectl salvage`, or restore the name's file below `names/` from a backup or from the store's earlier \
         versions; only if the change was intended, run {}: this client then forgets the stack, and the next `up` or `import` makes everything again",
        accepting(object)
    )
}

/// The command that accepts a stack as it is now.
fn accepting(object: &str) -> String {
    let stack =
        stack_of(object).map_or_else(String::new, |name| format!(" --stack {}", quoted(&name.short())));
    format!("`statectl trust --accept{stack}`")
}

/// Text of errors about a data key that this client opened before, and can't open now.
const UNOPENED: &[&str] = &["can't open it now"];

/// Hint for a data key that can't be opened any more.
fn other_identity(object: &str) -> String {
    format!(
        "pass the identity that opened it before with `--identity FILE`, STATECTL_IDENTITY or STATECTL_PASSPHRASE, and restore a \
         missing key file from a backup; if another user changed the stack on purpose, run {}",
        accepting(object)
    )
}

/// Hint for a missing bucket.
fn create_container(container: &str) -> String {
    format!(
        "create {container} first with the tools of its cloud, or name another one with `--backend URL`; statectl doesn't \
         create buckets"
    )
}

/// Hint for a server whose certificate isn't trusted.
const BAD_CERTIFICATE_HINT: &str = "the server's certificate isn't trusted; if you know the server, set SSL_CERT_FILE to the \
                                    certificate of the authority that signed it";

/// Texts of errors about a certificate that isn't trusted.
const BAD_CERTIFICATE: &[&str] = &["invalid peer certificate", "UnknownIssuer"];

/// Texts of errors about content that was changed without the data key.
const FORGED: &[&str] = &[
    "changed without the key",
    "the store was altered",
    "while this session held the lock",
    "its head was forged",
];

/// Text of errors about a spool file that no session of the stack wrote.
const SPOOLED: &[&str] = &["spooled result of operation"];

/// Hint for a spool file that no session of the stack wrote.
const SPOOLED_HINT: &str = "check the real resource, then record the outcome with `statectl pending resolve OPERATION --done` or \
                            `statectl pending resolve OPERATION --not-done`";

/// Hint for content that was changed without the data key.
const FORGED_HINT: &str = "find out who can write to the store; restore the changed files from a backup or from the store's \
                           earlier versions, then check the stack with `statectl verify --deep`";

/// Text of errors about an age plugin that only the stack names.
const UNTRUSTED_PLUGIN: &[&str] = &["so it was not started"];

/// Hint for an age plugin that only the stack names.
const UNTRUSTED_PLUGIN_HINT: &str = "if you trust the plugin, set STATECTL_AGE_PLUGINS to its name for this command; otherwise \
                                     remove its recipients with `statectl recipients remove RECIPIENT`, for outputs with `statectl recipients remove --outputs RECIPIENT`";

/// Texts of errors about a plaintext stack, for which only `encrypt` creates a data key.
const NO_DATA_KEY: &[&str] = &["encrypt the stack first", "a plaintext stack has no data key"];

/// Hint for a plaintext stack.
const NO_DATA_KEY_HINT: &str = "encrypt the stack with `statectl encrypt`, then run the command again";

/// Text of errors about a passphrase that is easy to guess.
const SHORT_PASSPHRASE: &[&str] = &["passphrase is shorter"];

/// Hint for a passphrase that is easy to guess.
const SHORT_PASSPHRASE_HINT: &str = "set STATECTL_PASSPHRASE to several random words";

/// Texts of errors about an expected key that this client can't open.
const UNOPENED_EXPECTED: &[&str] = &["is expected, and no available identity opens"];

/// Hint for an expected key that this client can't open.
const UNOPENED_EXPECTED_HINT: &str = "pass an identity of a recipient with `--identity FILE` or STATECTL_IDENTITY, or let a recipient run \
                                      `statectl recipients add RECIPIENT` for this client; `statectl identity` prints its recipient";

/// Text of errors about a memory of known stacks that can't be written.
const NOT_REMEMBERED: &[&str] = &["this client could not remember the stack"];
const NOT_REMEMBERED_HINT: &str = "make the file that the warning names writable: free space on its disk, or move away what is in its \
                                   place; then run `statectl trust --accept`";

/// Text of errors about a stack that differs from `--expect-key` or `--expect-revision`.
const UNEXPECTED: &[&str] = &["is expected"];

/// Hint for a stack that differs from `--expect-key` or `--expect-revision`.
const UNEXPECTED_HINT: &str = "ask the other users of the stack; if the change was intended, pass the key that `statectl trust` \
                               shows with `--expect-key`, and a revision of `statectl history` with `--expect-revision`";

/// Error codes of stores for a request whose signature time is too old or too new.
const CLOCK_SKEW: &[&str] = &["RequestTimeTooSkewed", "RequestExpired"];

/// Hint for a rejected signature time.
const CLOCK_SKEW_HINT: &str = "correct this machine's clock: the store refuses requests whose signature time differs from its own clock";

/// Default hint for a kind of error, if the error has no more specific one.
fn hint(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound => "list stacks with `statectl stack ls`",
        ErrorKind::NoCurrent => "create a first revision with `statectl up` or `statectl import FILE`",
        ErrorKind::Locked => {
            "wait for the lock holder, or set `--lock-timeout`; if the holder has crashed, run `statectl lock status`, \
             then `statectl lock break`, or for a client lock `statectl lock break --id ID`"
        }
        ErrorKind::Conflict => {
            "check the current state with `statectl history` and `statectl pending list`, then run the command again"
        }
        ErrorKind::Fenced | ErrorKind::Indeterminate => {
            "check what was written with `statectl history` and `statectl pending list` before you repeat the command"
        }
        ErrorKind::NotApplied => "nothing was changed: fix the cause, then run the command again",
        ErrorKind::Corrupt => {
            "don't write to the stack; find the damage with `statectl verify --deep`, then run `statectl salvage`, or \
             restore the files from a backup"
        }
        ErrorKind::Integrity => "list all violations of the stored state with `statectl verify`",
        ErrorKind::Format => "use the version of statectl that wrote the data, or a newer one",
        ErrorKind::Unsupported => "use another store, or a build of statectl with the named feature",
        ErrorKind::Sealed => {
            "pass an identity that can decrypt the stack with `--identity FILE`, STATECTL_IDENTITY or \
             STATECTL_PASSPHRASE, or ask a recipient to run `statectl recipients add RECIPIENT` with the recipient that \
             `statectl identity` prints"
        }
        ErrorKind::Denied => {
            "check your permissions and credentials for the store, then run the command again; files of another user need \
             `chown` or `chmod` by their owner"
        }
        ErrorKind::Unavailable => "check that the store exists and is reachable, then run the command again",
        ErrorKind::Closed => "run the command again",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::CliError;
    use crate::exit::ExitCode;
    use crate::invocation::Invocation;
    use state_core::Error;

    #[test]
    fn error_names_its_cause_once() {
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
    fn hint_names_no_lineage_as_stack() {
        let hint = |object: &str| {
            CliError::from(Error::distrusted(object, "it was replaced"))
                .hint
                .unwrap()
        };
        assert!(hint("stack shop").contains("--stack shop`"));
        let lineage = hint("stack 6787e9bf-958d-41e2-9a93-d257a903352b");
        assert!(!lineage.contains("--stack"), "{lineage}");
    }

    #[test]
    fn hint_repeats_backend_and_stack_flags() {
        let error =
            CliError::from(Error::not_found("stack x")).with_invocation(&Invocation::new(Some("/b"), None));
        assert_eq!(
            error.hint.as_deref(),
            Some("list stacks with `statectl --backend /b stack ls`")
        );
    }
}

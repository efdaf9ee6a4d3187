//! Commands in hints and warnings, written so that they can be pasted: with quoted words, and with the flags of this command.

use state_core::StackName;

/// How a command begins in a text for people.
const COMMAND: &str = "`statectl ";

/// Commands that use no stack, by their first words.
const WITHOUT_STACK: [&str; 9] = [
    "backends", "config", "doctor", "help", "identity", "init", "kinds", "login", "stack",
];

/// The flags for the store and the stack of this command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Invocation {
    backend: Option<String>,
    stack: Option<String>,
    /// The stack that the text is about, if the user named none. It comes last, so that the command stays readable.
    found: Option<String>,
}

impl Invocation {
    /// The flags with these values, which are quoted for a shell.
    pub(crate) fn new(backend: Option<&str>, stack: Option<&str>) -> Self {
        Self {
            backend: backend.map(|url| format!("--backend {} ", quoted(url))),
            stack: stack.map(|stack| format!("--stack {} ", quoted(stack))),
            found: None,
        }
    }

    /// The same flags with this stack, if the user named none.
    pub(crate) fn or_stack(&self, stack: Option<&StackName>) -> Self {
        let found = stack.filter(|_| self.stack.is_none());
        Self {
            found: found.map(|stack| format!(" --stack {}", quoted(&stack.short()))),
            ..self.clone()
        }
    }

    /// The text with these flags in each command that doesn't have them.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut parts = text.split(COMMAND);
        let mut applied = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (command, rest) = part.split_at(part.find('`').unwrap_or(part.len()));
            let mut words = command.split_whitespace();
            let uses_stack = words.next().is_some_and(|first| !WITHOUT_STACK.contains(&first));
            let has = |flag: &str| command.split_whitespace().any(|word| word == flag);
            let backend = self
                .backend
                .as_deref()
                .filter(|_| !has("--backend") && !has("login"));
            let add_stack = uses_stack && !has("--stack");
            let stack = self.stack.as_deref().filter(|_| add_stack);
            let found = self.found.as_deref().filter(|_| add_stack);
            for piece in [Some(COMMAND), backend, stack, Some(command), found, Some(rest)] {
                applied.push_str(piece.unwrap_or_default());
            }
        }
        applied
    }
}

/// A word quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Invocation, quoted};

    #[test]
    fn words_are_quoted_only_if_needed() {
        assert_eq!(quoted("file://.state"), "file://.state");
        assert_eq!(quoted("a[\"b\"]"), "'a[\"b\"]'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn commands_get_the_flags_that_they_lack() {
        let invocation = Invocation::new(Some("/b c"), Some("shop/eu"));
        let applied =
            invocation.apply("run `statectl trust`, or `statectl lock break --stack x`; see `--help`");
        assert_eq!(
            applied,
            "run `statectl --backend '/b c' --stack shop/eu trust`, or `statectl --backend '/b c' lock break --stack x`; \
             see `--help`"
        );
        assert_eq!(invocation.apply(&applied), applied, "only once");
        assert_eq!(
            invocation.apply("`statectl init --backend /d` or `statectl login s3://b`"),
            "`statectl init --backend /d` or `statectl login s3://b`"
        );
        let named = invocation.or_stack(Some(&"other".parse().unwrap()));
        assert!(named.apply("`statectl list`").contains("--stack shop/eu"));
        let found = Invocation::default().or_stack(Some(&"shop".parse().unwrap()));
        assert_eq!(
            found.apply("`statectl trust --accept`, `statectl stack ls`"),
            "`statectl trust --accept --stack shop`, `statectl stack ls`"
        );
        assert_eq!(Invocation::default().apply("`statectl up`"), "`statectl up`");
    }
}

//! Reads the token file: one `USER TOKEN` per line, readable only by its owner.

use crate::error::CliError;
use crate::input;
use crate::settings::quoted;
use state_server::Token;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Permission bits of a token file that must not be set.
const OPEN_TO_OTHERS: u32 = 0o077;

/// Reads the tokens of a file. Empty lines, and lines that begin with `#`, are ignored.
///
/// # Errors
/// If the file can't be read, if other users can access it, or if a line is malformed. No error repeats a line.
pub(super) fn read(path: &Path) -> Result<Vec<Token>, CliError> {
    let name = path.display().to_string();
    let failed = |source: std::io::Error| {
        CliError::io(name.clone(), &source).with_hint("name a file with one `USER TOKEN` per line")
    };
    let file = input::open(path).map_err(failed)?;
    // Checked on the opened file: a check of the path could be of another file.
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() && metadata.mode() & OPEN_TO_OTHERS != 0 {
        let message = "refused to use the tokens: other users can access the file";
        return Err(CliError::refused(&*name, message)
            .with_hint(format!("make it private with `chmod 600 {}`", quoted(&name))));
    }
    let text = input::limited_text(file, input::MAX_SMALL).map(Zeroizing::new);
    parse(&name, &text.map_err(failed)?)
}

fn parse(name: &str, text: &str) -> Result<Vec<Token>, CliError> {
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let invalid = |reason: &str| CliError::failed(format!("{name}, line {number}"), reason);
        let (user, secret) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| invalid("expected `USER TOKEN`"))?;
        tokens.push(Token::new(user, secret.trim()).map_err(invalid)?);
    }
    if tokens.is_empty() {
        return Err(CliError::failed(name, "the file has no tokens")
            .with_hint("add one: `echo \"anna $(openssl rand -hex 32)\" >> FILE`"));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn errors_name_the_line_and_repeat_no_token() {
        let text = "# comment\n\nanna 0123456789abcdef0123\nbert short-secret\n";
        let error = parse("tokens", text).unwrap_err();
        assert!(error.message.starts_with("tokens, line 4: "), "{error:?}");
        assert!(!format!("{error:?}").contains("short-secret"));
        assert!(parse("tokens", "# nothing\n").is_err());
        assert_eq!(parse("tokens", "anna  0123456789abcdef0123 \n").unwrap().len(), 1);
    }
}

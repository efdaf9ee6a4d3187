//! A lexer for Rust source with as much detail as import paths need: comments, literals and lifetimes are dropped.

/// One token of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An identifier or keyword, without the `r#` of a raw identifier.
    Word(&'a str),
    /// The path separator `::`.
    PathSeparator,
    /// An opening bracket: `(`, `[` or `{`.
    Open(char),
    /// A closing bracket: `)`, `]` or `}`.
    Close(char),
    /// Any other punctuation character.
    Punctuation(char),
}

/// Returns the tokens of a source file in order.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { rest: text };
    let mut tokens = Vec::new();
    while let Some(first) = lexer.rest.chars().next() {
        tokens.extend(lexer.next_token(first));
    }
    tokens
}

struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    /// Consumes at least one character. `None` for whitespace, comments, literals and lifetimes.
    fn next_token(&mut self, first: char) -> Option<Token<'a>> {
        if self.rest.starts_with("//") {
            self.skip_to(self.rest.find('\n').unwrap_or(self.rest.len()));
            return None;
        }
        if self.rest.starts_with("/*") {
            self.skip_block_comment();
            return None;
        }
        if is_word_start(first) {
            return self.word_or_prefixed_literal();
        }
        if first.is_ascii_digit() {
            self.skip_number();
            return None;
        }
        match first {
            '"' => self.skip_string(),
            '\'' => self.skip_character_or_lifetime(),
            _ if first.is_whitespace() => self.skip_to(first.len_utf8()),
            ':' if self.rest.starts_with("::") => {
                self.skip_to(2);
                return Some(Token::PathSeparator);
            }
            _ => {
                self.skip_to(first.len_utf8());
                return Some(match first {
                    '(' | '[' | '{' => Token::Open(first),
                    ')' | ']' | '}' => Token::Close(first),
                    _ => Token::Punctuation(first),
                });
            }
        }
        None
    }

    fn skip_to(&mut self, at: usize) {
        self.rest = self.rest.get(at..).unwrap_or_default();
    }

    /// Skips a block comment. Block comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip_to(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip_to(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.skip_character();
            }
        }
    }

    fn skip_character(&mut self) {
        let width = self.rest.chars().next().map_or(0, char::len_utf8);
        self.skip_to(width);
    }

    fn word_or_prefixed_literal(&mut self) -> Option<Token<'a>> {
        let end = self.rest.find(|c| !is_word_part(c)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(end);
        let is_prefix = matches!(word, "r" | "b" | "br" | "c" | "cr");
        if is_prefix && after.starts_with('"') {
            self.skip_to(end);
            if word.contains('r') {
                self.skip_raw_string(0);
            } else {
                self.skip_string();
            }
            return None;
        }
        if word == "b" && after.starts_with('\'') {
            self.skip_to(end);
            self.skip_character_or_lifetime();
            return None;
        }
        let hashes = after.len() - after.trim_start_matches('#').len();
        if is_prefix && hashes > 0 && after[hashes..].starts_with('"') {
            self.skip_to(end + hashes);
            self.skip_raw_string(hashes);
            return None;
        }
        if word == "r" && hashes == 1 && after[1..].starts_with(is_word_start) {
            self.skip_to(2);
            return self.word_or_prefixed_literal();
        }
        self.skip_to(end);
        Some(Token::Word(word))
    }

    /// Reads a string; starts at the opening quote.
    fn skip_string(&mut self) {
        self.skip_to(1);
        while let Some(next) = self.rest.chars().next() {
            self.skip_character();
            match next {
                '\\' => self.skip_character(),
                '"' => return,
                _ => {}
            }
        }
    }

    /// Reads a raw string; starts at the opening quote.
    fn skip_raw_string(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        self.skip_to(1);
        let length = self.rest.find(&end).map_or(self.rest.len(), |at| at + end.len());
        self.skip_to(length);
    }

    /// `'x'` and `'\n'` are characters, `'x` without a second quote is a lifetime.
    fn skip_character_or_lifetime(&mut self) {
        self.skip_to(1);
        if self.rest.starts_with('\\') {
            self.skip_character();
            self.skip_character();
            self.skip_to(self.rest.find('\'').map_or(self.rest.len(), |at| at + 1));
            return;
        }
        let mut characters = self.rest.char_indices().skip(1);
        if let Some((at, '\'')) = characters.next() {
            self.skip_to(at + 1);
            return;
        }
        self.skip_to(self.rest.find(|c| !is_word_part(c)).unwrap_or(self.rest.len()));
    }

    fn skip_number(&mut self) {
        self.skip_to(self.rest.find(|c| !is_word_part(c)).unwrap_or(self.rest.len()));
        // `1.5` continues, `0..3` and `1.max(2)` don't.
        if self.rest.starts_with('.') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.skip_to(1);
            self.skip_number();
        }
    }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

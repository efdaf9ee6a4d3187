//! Splits a validated value into a flat sequence of tokens, for passes without a tree.

use super::skip::skip_value;
use super::text::{skip_space, skip_string};
use super::view::View;

/// One token of a JSON text. White space yields no token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The opening bracket of an object or array.
    Open(char),
    /// The closing bracket of an object or array.
    Close(char),
    Comma,
    Colon,
    /// A string or key, as written between its quotes.
    String(&'a str),
    /// A number or literal.
    Scalar(&'a str),
}

/// Iterator over the tokens of one value.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(view: View<'a>) -> Self {
        Self {
            text: view.text(),
            at: 0,
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        let start = skip_space(bytes, self.at);
        let &byte = bytes.get(start)?;
        self.at = start + 1;
        Some(match byte {
            b'{' | b'[' => Token::Open(char::from(byte)),
            b'}' | b']' => Token::Close(char::from(byte)),
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => {
                self.at = skip_string(bytes, start);
                Token::String(&self.text[start + 1..self.at - 1])
            }
            _ => {
                self.at = skip_value(bytes, start);
                Token::Scalar(&self.text[start..self.at])
            }
        })
    }
}

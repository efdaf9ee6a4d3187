//! Lays out JSON like Go's encoder, and keeps the original text of a state whose layout can't be reproduced.
//!
//! The original text is kept together with the digest of the text that we would write instead. As long as we would
//! write the same text, the state hasn't changed, and the original text is exported.

mod printer;

use crate::error::{Error, Result};
use crate::fields::scan_unlimited;
use serde::{Deserialize, Serialize};
use state_core::digest::{Digest, Digester};
use state_core::json::{self, Style};

pub(crate) use printer::Printer;

/// Formats a JSON document as Go's encoder does: indented by two spaces, with `<`, `>` and `&` escaped.
pub(crate) fn go_formatted(compact: &str) -> Result<String> {
    let style = Style {
        indent: Some("  "),
        escape_html: true,
    };
    let document = scan_unlimited(compact.as_bytes()).map_err(Error::malformed)?;
    let mut text = String::with_capacity(compact.len() * 2);
    json::write(document.root(), &style, &mut text);
    text.push('\n');
    Ok(text)
}

/// A layout that Go's encoder produces.
///
/// Pulumi writes checkpoints on one line with `<`, `>` and `&` unescaped (older versions: indented by four spaces), and
/// exports indented by four spaces with these characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Layout {
    /// Indentation of each level; None for a document on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) indent: Option<String>,
    /// Whether `<`, `>` and `&` are escaped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) html: bool,
    /// Whether the document ends with a newline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) newline: bool,
}

impl Layout {
    /// Guesses the layout of a document: the indentation from its second line, the escapes from the whole text, and the
    /// newline from its end.
    pub(crate) fn of(text: &str) -> Self {
        let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
        let second_line = inside.strip_prefix('\n');
        let indent = second_line.map(|line| {
            let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(0);
            line[..end].to_owned()
        });
        Self {
            indent,
            html: ["\\u003c", "\\u003e", "\\u0026"]
                .iter()
                .any(|escape| text.contains(escape)),
            newline: text.ends_with('\n'),
        }
    }
}

/// Longest piece of a kept text, in bytes. Even fully escaped, a piece stays far below the string limit of our decoder.
const PIECE: usize = 1 << 20;

/// Compression level of the text that is held in memory during an import: fast rather than small.
const LEVEL: i32 = 1;

/// The original text of a state, valid as long as rendering the state gives the same digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OriginalText {
    /// The text in pieces, so that no string exceeds the limit of our decoder.
    text: Vec<String>,
    rendering: Digest,
}

impl OriginalText {
    /// Writes the original text if there is one that is still valid, else the text that `render` writes in pieces.
    pub(crate) fn write_if_valid(
        this: Option<&Self>,
        render: impl Fn(&mut dyn FnMut(&str)) -> Result<()>,
        out: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        if let Some(original) = this {
            let mut digester = Digester::default();
            render(&mut |piece| digester.add(piece.as_bytes()))?;
            if digester.finish() == original.rendering {
                original.text.iter().for_each(|piece| out(piece.as_bytes()));
                return Ok(());
            }
        }
        render(&mut |piece| out(piece.as_bytes()))
    }
}

/// A compressed text with its digest, held so that the text itself can be freed during an import.
pub(crate) struct CompressedText {
    pub(crate) digest: Digest,
    pub(crate) is_one_line: bool,
    length: usize,
    packed: Vec<u8>,
}

impl CompressedText {
    /// Compresses a text and computes its digest.
    pub(crate) fn of(text: &str) -> Result<Self> {
        Ok(Self {
            digest: Digest::of(text.as_bytes()),
            is_one_line: !text.trim_end_matches('\n').contains('\n'),
            length: text.len(),
            packed: zstd::bulk::compress(text.as_bytes(), LEVEL).map_err(|_| compression_failed())?,
        })
    }

    /// Returns the text that was compressed.
    pub(crate) fn text(&self) -> Result<String> {
        let text = zstd::bulk::decompress(&self.packed, self.length).map_err(|_| compression_failed())?;
        String::from_utf8(text).map_err(|_| compression_failed())
    }

    /// Decompresses the text. The result is valid as long as rendering the state gives the digest `rendering`.
    pub(crate) fn original(&self, rendering: Digest) -> Result<OriginalText> {
        Ok(OriginalText {
            text: split_pieces(&self.text()?),
            rendering,
        })
    }
}

fn compression_failed() -> Error {
    state_core::Error::invalid("state", "compressing or decompressing its text in memory failed").into()
}

fn split_pieces(text: &str) -> Vec<String> {
    let mut split_pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = PIECE.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        split_pieces.push(piece.to_owned());
        rest = after;
    }
    split_pieces
}

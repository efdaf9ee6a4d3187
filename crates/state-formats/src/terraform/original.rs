//! The bytes of a state whose layout isn't Terraform's own.
//!
//! Layouts that are known are named; for any other the text itself is kept, with the digest of what we would have
//! written. As long as we would still write that, nothing has changed and the text goes out as it came in.

use super::extension::{self, Layout, Original, StateFacts};
use super::render::{self, Sink};
use crate::TERRAFORM;
use crate::error::{Error, Result};
use state_core::digest::Digester;
use state_core::json::Style;
use state_core::{Digest, Snapshot};

/// How Terraform's encoder writes.
pub(super) const INDENTED: Style = Style {
    indent: Some("  "),
    escape_html: true,
};
const COMPACT: Style = Style {
    indent: None,
    escape_html: true,
};

/// The longest piece of a kept text, in bytes: escaped it still is far below what a reader takes.
const PIECE: usize = 1 << 20;

/// How the text that is kept while its state is read is packed: quickly.
const LEVEL: i32 = 1;

/// A text that is gone, with enough of it to know it again and to bring it back.
pub(crate) struct Kept {
    pub(crate) digest: Digest,
    is_one_line: bool,
    length: usize,
    packed: Vec<u8>,
}

impl Kept {
    /// Of this text.
    pub(crate) fn of(text: &str) -> Result<Self> {
        Ok(Self {
            digest: Digest::of(text.as_bytes()),
            is_one_line: !text.trim_end_matches('\n').contains('\n'),
            length: text.len(),
            packed: zstd::bulk::compress(text.as_bytes(), LEVEL).map_err(|_| lost())?,
        })
    }

    pub(crate) fn text(&self) -> Result<String> {
        let text = zstd::bulk::decompress(&self.packed, self.length).map_err(|_| lost())?;
        String::from_utf8(text).map_err(|_| lost())
    }
}

fn lost() -> Error {
    Error::Core(state_core::Error::invalid(
        "Terraform state",
        "its text can't be kept in memory",
    ))
}

/// Writes a snapshot's state in a layout.
pub(super) fn lay_out(
    snapshot: &Snapshot,
    facts: &StateFacts,
    layout: Option<Layout>,
    out: &mut Sink<'_>,
) -> Result<()> {
    let style = match layout {
        None | Some(Layout::Unended) => INDENTED,
        Some(Layout::Compact | Layout::CompactLine) => COMPACT,
    };
    render::write(snapshot, facts, &super::header(snapshot, facts)?, &style, out)?;
    if matches!(layout, None | Some(Layout::CompactLine)) {
        out("\n");
    }
    Ok(())
}

/// The digest of a snapshot's state in a layout.
fn digest(snapshot: &Snapshot, facts: &StateFacts, layout: Option<Layout>) -> Result<Digest> {
    let mut digester = Digester::default();
    lay_out(snapshot, facts, layout, &mut |piece| {
        digester.add(piece.as_bytes());
    })?;
    Ok(digester.finish())
}

/// Puts into a snapshot's extension whatever makes its export give the text again.
pub(super) fn remember(snapshot: &mut Snapshot, mut facts: StateFacts, text: &Kept) -> Result<()> {
    store(snapshot, &facts)?;
    let rendering = digest(snapshot, &facts, None)?;
    if rendering == text.digest {
        return Ok(());
    }
    let others: &[Layout] = if text.is_one_line {
        &[Layout::Compact, Layout::CompactLine, Layout::Unended]
    } else {
        &[Layout::Unended]
    };
    for &layout in others {
        if digest(snapshot, &facts, Some(layout))? == text.digest {
            facts.layout = Some(layout);
            return store(snapshot, &facts);
        }
    }
    facts.original = Some(Original {
        text: pieces(&text.text()?),
        rendering,
    });
    store(snapshot, &facts)
}

fn store(snapshot: &mut Snapshot, facts: &StateFacts) -> Result<()> {
    let json = extension::to_json(facts)?;
    snapshot.extensions.insert(TERRAFORM.to_owned(), json);
    Ok(())
}

pub(crate) fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = PIECE.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

/// The kept text if it still holds, else the rendering.
pub(crate) fn choose(rendered: String, original: Option<&Original>) -> String {
    match original {
        Some(original) if Digest::of(rendered.as_bytes()) == original.rendering => original.text.concat(),
        _ => rendered,
    }
}

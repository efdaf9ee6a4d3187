//! The bytes of a state whose layout isn't Terraform's own.
//!
//! Layouts that are known are named; for any other the text itself is kept, with the digest of what we would have
//! written. As long as we would still write that, nothing has changed and the text goes out as it came in.

use super::extension::{self, Layout, Original, StateFacts};
use crate::TERRAFORM;
use crate::error::{Error, Result};
use state_core::json::{Document, Limits, Style, write};
use state_core::{Digest, Snapshot};

/// How Terraform's encoder writes.
const INDENTED: Style = Style {
    indent: Some("  "),
    escape_html: true,
};
const COMPACT: Style = Style {
    indent: None,
    escape_html: true,
};

/// The longest piece of a kept text, in bytes: escaped it still is far below what a reader takes.
const PIECE: usize = 1 << 20;

/// Lays out a compact state.
pub(super) fn lay_out(compact: &str, layout: Option<Layout>) -> Result<String> {
    let limits = Limits {
        max_string_bytes: usize::MAX,
        max_bytes: usize::MAX,
        max_depth: 128,
    };
    let document = Document::parse(compact.as_bytes(), &limits).map_err(Error::malformed)?;
    let mut text = String::with_capacity(compact.len() * 2);
    let style = match layout {
        None | Some(Layout::Unended) => INDENTED,
        Some(Layout::Compact | Layout::CompactLine) => COMPACT,
    };
    write(document.root(), &style, &mut text);
    if matches!(layout, None | Some(Layout::CompactLine)) {
        text.push('\n');
    }
    Ok(text)
}

/// Puts into a snapshot's extension whatever makes its export give `text` again.
pub(super) fn remember(snapshot: &mut Snapshot, mut facts: StateFacts, text: &str) -> Result<()> {
    store(snapshot, &facts)?;
    let compact = super::render(snapshot, &facts)?;
    let rendered = lay_out(&compact, None)?;
    if rendered == text {
        return Ok(());
    }
    if !text.trim_end_matches('\n').contains('\n') {
        for layout in [Layout::Compact, Layout::CompactLine] {
            if lay_out(&compact, Some(layout))? == text {
                facts.layout = Some(layout);
                return store(snapshot, &facts);
            }
        }
    }
    if rendered.trim_end_matches('\n') == text {
        facts.layout = Some(Layout::Unended);
        return store(snapshot, &facts);
    }
    facts.original = Some(Original {
        text: pieces(text),
        rendering: Digest::of(rendered.as_bytes()),
    });
    store(snapshot, &facts)
}

fn store(snapshot: &mut Snapshot, facts: &StateFacts) -> Result<()> {
    let json = extension::to_json(facts)?;
    snapshot.extensions.insert(TERRAFORM.to_owned(), json);
    Ok(())
}

fn pieces(text: &str) -> Vec<String> {
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
pub(super) fn choose(rendered: String, original: Option<&Original>) -> String {
    match original {
        Some(original) if Digest::of(rendered.as_bytes()) == original.rendering => original.text.concat(),
        _ => rendered,
    }
}

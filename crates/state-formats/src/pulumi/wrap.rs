//! Puts values back into secret envelopes.

use super::facts::{self, Opened, Side};
use super::value::{SECRET, SIGNATURE};
use crate::error::Result;
use state_core::json::{Json, ObjectWriter, Properties, View};
use std::borrow::Cow;
use std::ops::Range;

/// One side's text with all secrets that were opened in envelopes: those that didn't change in the ones that they came
/// in.
pub(super) fn wrapped<'p>(properties: &'p Properties, opened: &[Opened], side: Side) -> Result<Cow<'p, str>> {
    let text = properties.json().as_str();
    let mut stretches = Vec::new();
    for one in opened.iter().filter(|one| one.side == side) {
        if let Some(view) = properties.view().pointer(&one.pointer) {
            stretches.push((
                view.offset()..view.offset() + view.text().len(),
                envelope(one, view)?,
            ));
        }
    }
    if stretches.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(replaced(text, stretches)))
}

/// A text with other text in the place of these stretches, none of which touches another.
pub(super) fn replaced(text: &str, mut stretches: Vec<(Range<usize>, String)>) -> String {
    stretches.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for (range, new) in stretches {
        out.push_str(&text[end..range.start]);
        out.push_str(&new);
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

fn envelope(opened: &Opened, now: View<'_>) -> Result<String> {
    let was = Json::parse(&opened.plaintext)
        .map_err(|_| facts::not_exportable("a secret", "what its envelope held can't be read"))?;
    let is_same = was.as_str() == now.text();
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.string(SIGNATURE, SECRET);
    match &opened.ciphertext {
        Some(ciphertext) if is_same => object.string("ciphertext", ciphertext),
        None if is_same => object.string("plaintext", &opened.plaintext),
        _ => object.string("plaintext", now.text()),
    };
    object.finish();
    Ok(text)
}

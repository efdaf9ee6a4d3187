//! Checks and writes special values: objects with a signature, such as the envelopes of secrets.

use super::facts::{OpenedSecret, Side, not_exportable};
use super::urn;
use crate::error::Result;
use crate::fields::{is_base64, push_token};
use state_core::json::{Json, Kind, ObjectWriter, Properties, View};
use state_core::sensitive::envelope::SECRET;
pub(super) use state_core::sensitive::envelope::SIGNATURE;
use std::borrow::Cow;
use std::ops::Range;

const ASSET: &str = "c44067f5952c0a294b673a41bacd8c17";
const ARCHIVE: &str = "0def7320c3a5731c473e5ecbe6d01bc7";
const RESOURCE: &str = "5cf8f73096256a8f31e491e813e4eb8e";
const OUTPUT: &str = "d0e6a833031e9bbcd3f4e8bde6ca49a4";
const BYTES: &str = "803fd3297a5875dc03ca845dda5d2a98";
const FLOAT: &str = "8ad145fe-0d11-4827-bfd7-1abcbf086f5c";

/// An invalid value, and the reason.
pub(super) type Rejection<'a> = (View<'a>, String);

/// Checks all special values inside a value, and calls `found` with each outermost secret and its pointer.
pub(super) fn check<'a>(
    view: View<'a>,
    pointer: &mut String,
    found: &mut dyn FnMut(&str, View<'a>),
) -> Result<(), Rejection<'a>> {
    let end = pointer.len();
    if let Some(members) = view.members() {
        let members: Vec<_> = members.collect();
        if let Some((_, signature)) = members.iter().find(|(key, _)| key == SIGNATURE)
            && check_special(view, *signature)? == Special::Secret
        {
            found(pointer, view);
            return Ok(());
        }
        for (key, child) in members {
            push_token(pointer, &key);
            check(child, pointer, found)?;
            pointer.truncate(end);
        }
    }
    for (index, child) in view.elements().into_iter().flatten().enumerate() {
        push_token(pointer, &index.to_string());
        check(child, pointer, found)?;
        pointer.truncate(end);
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Special {
    Secret,
    Other,
}

fn check_special<'a>(view: View<'a>, signature: View<'a>) -> Result<Special, Rejection<'a>> {
    let refuse = |message: &str| Err((view, message.to_owned()));
    let text = |key: &str| view.get(key).and_then(|value| value.as_str());
    match signature.as_str().as_deref() {
        Some(SECRET) => {
            check_envelope(view)?;
            return Ok(Special::Secret);
        }
        Some(ASSET | ARCHIVE) => {}
        Some(RESOURCE) if text("urn").is_some_and(|text| urn::is_urn(&text)) => {}
        Some(RESOURCE) => return refuse("a resource reference must have a `urn`"),
        Some(FLOAT) if text("value").is_some_and(|text| is_f64(&text)) => {}
        Some(FLOAT) => return refuse("a special number must have a `value` of 16 hexadecimal digits"),
        Some(BYTES) if text("value").is_some_and(|text| is_base64(&text)) => {}
        Some(BYTES) => return refuse("a byte string must have a `value` in base64"),
        Some(OUTPUT) => {
            return refuse("an output value must not be in a state: only engine and provider exchange them");
        }
        _ => return Err((signature, "unknown signature of a special value".to_owned())),
    }
    Ok(Special::Other)
}

fn is_f64(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks that a secret has exactly one of ciphertext and plaintext; the plaintext is JSON text.
fn check_envelope(view: View<'_>) -> Result<(), Rejection<'_>> {
    let refuse = |at, message: &str| Err((at, message.to_owned()));
    match (view.get("ciphertext"), view.get("plaintext")) {
        (Some(ciphertext), None) if ciphertext.kind() == Kind::String => Ok(()),
        (None, Some(plaintext)) => match plaintext.as_str() {
            Some(text) if Json::parse(&text).is_ok() => Ok(()),
            Some(_) => refuse(
                plaintext,
                "the `plaintext` of a secret must be the JSON text of its value",
            ),
            None => refuse(plaintext, "the `plaintext` of a secret must be a string"),
        },
        (Some(ciphertext), None) => refuse(ciphertext, "the `ciphertext` of a secret must be a string"),
        _ => refuse(
            view,
            "a secret must have exactly one of `ciphertext` and `plaintext`",
        ),
    }
}

/// Number of encrypted secrets in the inputs or outputs of a resource.
pub(super) fn ciphertexts(side: Option<&Properties>) -> usize {
    let mut count = 0;
    let Some(side) = side.filter(|side| side.json().as_str().contains(SIGNATURE)) else {
        return count;
    };
    let checked = check(side.view(), &mut String::new(), &mut |_, view| {
        count += usize::from(view.get("ciphertext").is_some());
    });
    // Counting stops at a malformed value.
    drop(checked);
    count
}

/// The text of inputs or outputs with all decrypted secrets in envelopes again. Unchanged secrets get their original
/// envelope.
pub(super) fn wrapped<'p>(
    properties: &'p Properties,
    opened: &[OpenedSecret],
    side: Side,
) -> Result<Cow<'p, str>> {
    let text = properties.json().as_str();
    let mut replacements = Vec::new();
    for one in opened.iter().filter(|one| one.side == side) {
        if let Some(view) = properties.view().pointer(&one.pointer) {
            replacements.push((
                view.offset()..view.offset() + view.text().len(),
                envelope(one, view)?,
            ));
        }
    }
    if replacements.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(replaced(text, replacements)))
}

/// Replaces ranges of a text. The ranges must not overlap.
pub(super) fn replaced(text: &str, mut replacements: Vec<(Range<usize>, String)>) -> String {
    replacements.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for (range, new) in replacements {
        out.push_str(&text[end..range.start]);
        out.push_str(&new);
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

fn envelope(opened: &OpenedSecret, now: View<'_>) -> Result<String> {
    let was = Json::parse(&opened.plaintext)
        .map_err(|_| not_exportable("a secret", "its recorded plaintext isn't JSON"))?;
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

//! Seals and opens parts of one JSON value or text.

use crate::cipher::{Cipher, OVERHEAD};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::spans::{SecretSpan, check_canonical, push_sealed, push_token, step, token, united, with_member};
use state_core::head::SealingPolicy;
use state_core::json::View;
use state_core::{Json, sealed};
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The origin of a value. The origin decides whether an object with the member `$sealed` is required to be a valid
/// sealed value, or may be user data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The value was read from the store: an object with the member `$sealed` must be a sealed value.
    Store,
    /// A caller supplied the value: an object with the member `$sealed` may be user data, unless it has the form of a
    /// sealed value.
    Caller,
}

/// A value with its sealed parts opened.
pub(crate) struct OpenedValue {
    pub(crate) json: Json,
    /// The spans in `json` that are sealed whatever the marks are: those that were sealed, and objects of a caller with a
    /// member `$sealed`, which a reader would mistake for sealed values.
    pub(crate) pinned: Vec<SecretSpan>,
}

/// A cipher with a sealing policy.
#[derive(Clone)]
pub(crate) struct ValueSealer {
    cipher: Arc<Cipher>,
    policy: SealingPolicy,
}

impl ValueSealer {
    pub(crate) fn new(cipher: Cipher, policy: SealingPolicy) -> Self {
        let cipher = Arc::new(cipher);
        Self { cipher, policy }
    }

    pub(crate) fn with_policy(&self, policy: SealingPolicy) -> Self {
        let cipher = Arc::clone(&self.cipher);
        Self { cipher, policy }
    }

    pub(crate) fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(crate) const fn policy(&self) -> SealingPolicy {
        self.policy
    }

    pub(crate) fn is_plaintext(&self) -> bool {
        self.policy == SealingPolicy::Plaintext
    }

    /// Returns whether the policy seals every field rather than the marked ones.
    pub(crate) fn seals_all(&self) -> bool {
        self.policy == SealingPolicy::All
    }

    /// Opens the sealed parts of a value. `prefix` is the pointer to the value within its field of the entry (inputs,
    /// outputs, extensions, ...).
    pub(crate) fn open(
        &self,
        json: &Json,
        place: &Place<'_>,
        prefix: &str,
        from: Origin,
    ) -> Result<OpenedValue> {
        self.open_spans(json, with_member(json), place, prefix, from)
    }

    /// Opens a value from the store, in which every marked value must be sealed.
    pub(crate) fn open_checked(
        &self,
        json: &Json,
        paths: &[String],
        marked: impl Fn(&[String]) -> Vec<SecretSpan>,
        place: &Place<'_>,
        prefix: &str,
    ) -> Result<Json> {
        let sealed = with_member(json);
        self.check_inside(&sealed, paths, marked, place, prefix)?;
        let opened = self.open_spans(json, sealed, place, prefix, Origin::Store)?;
        Ok(opened.json)
    }

    fn open_spans(
        &self,
        json: &Json,
        sealed: Vec<(SecretSpan, View<'_>)>,
        place: &Place<'_>,
        prefix: &str,
        from: Origin,
    ) -> Result<OpenedValue> {
        let mut pinned = Vec::new();
        let whole = json.as_str();
        let spared: usize = match from {
            Origin::Store if !self.is_plaintext() => sealed.iter().map(|(span, _)| spared(span)).sum(),
            // User data that looks sealed may stay as it is.
            _ => 0,
        };
        let room = if sealed.is_empty() {
            0
        } else {
            whole.len() - spared
        };
        // Never too little: a text that grows would leave values unwiped. Not much more, because wiping takes a tenth of the
        // time of opening.
        let mut text = Zeroizing::new(String::with_capacity(room));
        let mut end = 0;
        let mut cipher = None;
        for (SecretSpan { pointer, range }, view) in sealed {
            let path = joined(prefix, &pointer);
            let value = match token(view) {
                Some(token) => {
                    self.refuse_if_plaintext(place, &path)?;
                    let cipher = cipher.get_or_insert_with(|| self.cipher.at(place));
                    let value = cipher.open(&path, &token)?;
                    check_canonical(value, place, &path)?;
                    value
                }
                None if from == Origin::Caller || self.is_plaintext() => view.text(),
                None => {
                    return Err(Error::Malformed {
                        place: place.at(&path),
                        reason: "its form is unknown",
                    });
                }
            };
            text.push_str(&whole[end..range.start]);
            let start = text.len();
            text.push_str(value);
            pinned.push(SecretSpan {
                pointer,
                range: start..text.len(),
            });
            end = range.end;
        }
        if pinned.is_empty() {
            let json = json.clone();
            return Ok(OpenedValue { json, pinned });
        }
        text.push_str(&whole[end..]);
        debug_assert!(text.len() <= room, "a text that grows leaves values unwiped");
        let json = Json::from_canonical(&text);
        Ok(OpenedValue { json, pinned })
    }

    /// Seals the given spans of a value. They contain those that opening the value [pinned](OpenedValue::pinned).
    pub(crate) fn seal(
        &self,
        json: &Json,
        spans: Vec<SecretSpan>,
        place: &Place<'_>,
        prefix: &str,
    ) -> Result<Json> {
        if self.is_plaintext() {
            return Ok(json.clone());
        }
        let spans = united(json, spans);
        debug_assert!(
            with_member(json)
                .iter()
                .all(|(member, _)| spans.iter().any(|span| span.contains(member))),
            "an object that looks sealed would stay as it is"
        );
        if spans.is_empty() {
            return Ok(json.clone());
        }
        let whole = json.as_str();
        let mut text = Vec::with_capacity(2 * whole.len() + 128 * spans.len());
        let mut end = 0;
        let mut cipher = self.cipher.at(place);
        for SecretSpan { pointer, range } in spans {
            text.extend_from_slice(&whole.as_bytes()[end..range.start]);
            let path = joined(prefix, &pointer);
            let value = &whole.as_bytes()[range.clone()];
            push_sealed(&mut text, self.cipher.begin(), cipher.seal(&path, value)?);
            end = range.end;
        }
        text.extend_from_slice(&whole.as_bytes()[end..]);
        let text = String::from_utf8(text).expect("values of a text are replaced by ASCII");
        Ok(Json::from_canonical(&text))
    }

    /// Opens a text if it is sealed; returns whether it was.
    pub(crate) fn open_text(
        &self,
        text: &str,
        place: &Place<'_>,
        path: &str,
        from: Origin,
    ) -> Result<(String, bool)> {
        let plain = || Ok((text.to_owned(), false));
        let Some(token) = text.strip_prefix(sealed::TEXT_PREFIX) else {
            return plain();
        };
        if sealed::key_of_text(text).is_some() {
            self.refuse_if_plaintext(place, path)?;
            let value = self.cipher.at(place).open(path, token)?.to_owned();
            return Ok((value, true));
        }
        if from == Origin::Caller || self.is_plaintext() {
            return plain();
        }
        Err(Error::Malformed {
            place: place.at(path),
            reason: "its form is unknown",
        })
    }

    /// Seals a text if it is secret, or if it would be mistaken for a sealed one.
    pub(crate) fn seal_text(
        &self,
        text: &str,
        place: &Place<'_>,
        path: &str,
        is_secret: bool,
    ) -> Result<String> {
        if self.is_plaintext() || !is_secret && !text.starts_with(sealed::TEXT_PREFIX) {
            return Ok(text.to_owned());
        }
        let mut cipher = self.cipher.at(place);
        let mut sealed = sealed::TEXT_PREFIX.as_bytes().to_vec();
        push_token(
            &mut sealed,
            self.cipher.begin(),
            cipher.seal(path, text.as_bytes())?,
        );
        Ok(String::from_utf8(sealed).expect("a token is ASCII"))
    }

    /// Refuses a sealed value under the policy that seals nothing.
    fn refuse_if_plaintext(&self, place: &Place<'_>, path: &str) -> Result<()> {
        if !self.is_plaintext() {
            return Ok(());
        }
        Err(Error::Malformed {
            place: place.at(path),
            reason: "it is sealed, but the stack is not encrypted",
        })
    }

    /// Refuses a value with marked spans outside of its sealed values: otherwise an attacker could replace a sealed
    /// value by plaintext. `marked` returns the spans that the given paths select.
    fn check_inside(
        &self,
        sealed: &[(SecretSpan, View<'_>)],
        paths: &[String],
        marked: impl Fn(&[String]) -> Vec<SecretSpan>,
        place: &Place<'_>,
        prefix: &str,
    ) -> Result<()> {
        if self.is_plaintext() || paths.is_empty() {
            return Ok(());
        }
        // Most paths lead straight to a sealed value; only the others must be resolved.
        let mut pointers: Vec<&str> = sealed.iter().map(|(one, _)| one.pointer.as_str()).collect();
        pointers.sort_unstable();
        let leads_to_sealed = |path: &&String| {
            if prefix.is_empty() && !path.contains(['/', '~']) {
                // The name of a field is its pointer without the slash.
                let found = pointers.binary_search_by(|pointer| {
                    let name = pointer.strip_prefix('/').unwrap_or_default();
                    name.cmp(path.as_str())
                });
                return found.is_ok_and(|at| !pointers[at].is_empty());
            }
            let pointer = if path.starts_with('/') {
                Cow::Borrowed(path.as_str())
            } else {
                Cow::Owned(step(path))
            };
            let inside = pointer.strip_prefix(prefix);
            inside.is_some_and(|inside| pointers.binary_search(&inside).is_ok())
        };
        let others: Vec<String> = paths
            .iter()
            .filter(|path| !leads_to_sealed(path))
            .cloned()
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        for span in marked(&others) {
            let after = sealed.partition_point(|(one, _)| one.range.start <= span.range.start);
            let inside = after.checked_sub(1).and_then(|at| sealed.get(at));
            if !inside.is_some_and(|(one, _)| one.contains(&span)) {
                return Err(Error::Plain {
                    place: place.at(&joined(prefix, &span.pointer)),
                });
            }
        }
        Ok(())
    }
}

/// By how many bytes a sealed value is at least longer than its content. If this isn't true, opening fails.
fn spared(sealed: &SecretSpan) -> usize {
    let length = sealed.range.len();
    // Base64 encodes three bytes in four digits.
    (length / 4 + OVERHEAD).min(length)
}

fn joined<'p>(prefix: &str, pointer: &'p str) -> Cow<'p, str> {
    if prefix.is_empty() {
        return Cow::Borrowed(pointer);
    }
    let mut path = String::with_capacity(prefix.len() + pointer.len());
    path.push_str(prefix);
    path.push_str(pointer);
    Cow::Owned(path)
}

//! One JSON value or text: the stretches that are told are sealed, what is sealed is opened.

use crate::cipher::Cipher;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::stretch::{Stretch, json_of, push_sealed, token, united, with_member};
use state_core::head::Policy;
use state_core::{Json, sealed};
use zeroize::Zeroizing;

/// Whether what looks like a sealed value must be one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The store: an object with the member `$sealed` is a sealed value.
    Store,
    /// A caller: an object with that member may be a value of theirs, if it hasn't the form of a sealed one.
    Caller,
}

/// A value with its sealed parts opened.
pub(crate) struct Opened {
    pub(crate) json: Json,
    /// Where they are in it.
    pub(crate) pinned: Vec<Stretch>,
}

/// A cipher and how much it is used.
#[derive(Clone)]
pub(crate) struct ValueSealer {
    cipher: Cipher,
    policy: Policy,
}

impl ValueSealer {
    pub(crate) const fn new(cipher: Cipher, policy: Policy) -> Self {
        Self { cipher, policy }
    }

    pub(crate) const fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(crate) const fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn is_plaintext(&self) -> bool {
        self.policy == Policy::Plaintext
    }

    /// Every field, rather than the marked ones.
    pub(crate) fn seals_all(&self) -> bool {
        self.policy == Policy::All
    }

    /// Opens what is sealed in a value. `prefix` leads to it in the place's side.
    pub(crate) fn open(&self, json: &Json, place: &Place<'_>, prefix: &str, from: Origin) -> Result<Opened> {
        let mut pinned = Vec::new();
        let whole = json.as_str();
        let mut text = Zeroizing::new(String::new());
        let mut end = 0;
        for Stretch { pointer, range } in with_member(json) {
            let path = format!("{prefix}{pointer}");
            let Some(token) = json.view().pointer(&pointer).and_then(token) else {
                if from == Origin::Caller || self.is_plaintext() {
                    continue;
                }
                return Err(Error::Malformed {
                    place: place.at(&path),
                    reason: "its form",
                });
            };
            let value = self.open_token(&token, place, &path)?;
            text.push_str(&whole[end..range.start]);
            let start = text.len();
            text.push_str(&value);
            pinned.push(Stretch {
                pointer,
                range: start..text.len(),
            });
            end = range.end;
        }
        if pinned.is_empty() {
            let json = json.clone();
            return Ok(Opened { json, pinned });
        }
        text.push_str(&whole[end..]);
        let json = json_of(&text, place, prefix)?;
        Ok(Opened { json, pinned })
    }

    /// Seals stretches of a value, and its objects that have a member `$sealed` of their own.
    pub(crate) fn seal(
        &self,
        json: &Json,
        stretches: impl IntoIterator<Item = Stretch>,
        place: &Place<'_>,
        prefix: &str,
    ) -> Result<Json> {
        if self.is_plaintext() {
            return Ok(json.clone());
        }
        let stretches = united(json, stretches.into_iter().chain(with_member(json)));
        if stretches.is_empty() {
            return Ok(json.clone());
        }
        let whole = json.as_str();
        let mut text = String::with_capacity(2 * whole.len() + 128 * stretches.len());
        let mut end = 0;
        for Stretch { pointer, range } in stretches {
            text.push_str(&whole[end..range.start]);
            let path = format!("{prefix}{pointer}");
            let token = self.cipher.seal(place, &path, &whole.as_bytes()[range.clone()])?;
            push_sealed(&mut text, &token);
            end = range.end;
        }
        text.push_str(&whole[end..]);
        json_of(&text, place, prefix)
    }

    /// Opens a text if it is sealed; says whether it was.
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
            let value = self.open_token(token, place, path)?;
            return Ok((String::clone(&value), true));
        }
        if from == Origin::Caller || self.is_plaintext() {
            return plain();
        }
        Err(Error::Malformed {
            place: place.at(path),
            reason: "its form",
        })
    }

    /// Seals a text if it is told to, or if it would be taken for a sealed one.
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
        let token = self.cipher.seal(place, path, text.as_bytes())?;
        Ok(format!("{}{token}", sealed::TEXT_PREFIX))
    }

    fn open_token(&self, token: &str, place: &Place<'_>, path: &str) -> Result<Zeroizing<String>> {
        if self.is_plaintext() {
            return Err(Error::Malformed {
                place: place.at(path),
                reason: "it is sealed, but the stack is not",
            });
        }
        let value = self.cipher.open(place, path, token)?;
        let text = std::str::from_utf8(&value).map_err(|_| Error::NotAuthentic {
            place: place.at(path),
        })?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Refuses a value whose marked stretches aren't all inside of sealed values. Needs no key.
    pub(crate) fn check_sealed(
        &self,
        json: &Json,
        marked: impl IntoIterator<Item = Stretch>,
        place: &Place<'_>,
        prefix: &str,
    ) -> Result<()> {
        if self.is_plaintext() {
            return Ok(());
        }
        let sealed = with_member(json);
        for stretch in marked {
            let after = sealed.partition_point(|one| one.range.start <= stretch.range.start);
            let inside = after.checked_sub(1).and_then(|at| sealed.get(at));
            if !inside.is_some_and(|one| one.contains(&stretch)) {
                return Err(Error::Plain {
                    place: place.at(&format!("{prefix}{}", stretch.pointer)),
                });
            }
        }
        Ok(())
    }
}

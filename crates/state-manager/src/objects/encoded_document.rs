//! Revision documents whose records are decoded on demand.

use crate::objects::document::RevisionDocument;
use memchr::memchr_iter;
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use state_core::history::HistoryPageRef;
use state_core::{Digest, Error, Result, RevisionId, Slot};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A revision document whose record is still JSON text, as a page of the history stores it. Decoding a record takes much
/// longer than a search in its text, and most queries need few of the records on a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct EncodedDocument {
    pub(crate) revision: RevisionId,
    pub(crate) slot: Slot,
    pub(crate) chain: Digest,
    made: Box<RawValue>,
}

/// A page of the history that was compared with its reference.
#[derive(Debug)]
pub(crate) struct EncodedPage {
    pub(crate) reference: HistoryPageRef,
    /// The documents of the page, oldest first.
    pub(crate) documents: Vec<EncodedDocument>,
}

/// The time fields of a record.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RecordTimes<'r> {
    #[serde(borrow)]
    update_end: Option<UpdateEndTimes<'r>>,
}

#[derive(Deserialize)]
struct UpdateEndTimes<'r> {
    #[serde(borrow)]
    update: UpdateTimes<'r>,
}

#[derive(Deserialize)]
struct UpdateTimes<'r> {
    #[serde(borrow)]
    start: Cow<'r, str>,
    #[serde(borrow)]
    end: Option<Cow<'r, str>>,
}

impl EncodedDocument {
    /// Decodes the record.
    ///
    /// # Errors
    /// `Corrupt`, which names the revision, if the text isn't a record that makes a revision.
    pub(crate) fn decode(&self) -> Result<RevisionDocument> {
        let made = serde_json::from_str(self.made.get()).map_err(|_| self.damaged())?;
        Ok(RevisionDocument {
            revision: self.revision.clone(),
            slot: self.slot,
            chain: self.chain,
            made,
        })
    }

    /// The time at which the update ended that made the revision; none for a detached revision, whose record has no time.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub(crate) fn ended(&self) -> Result<Option<Cow<'_, str>>> {
        let times: RecordTimes<'_> = serde_json::from_str(self.made.get()).map_err(|_| self.damaged())?;
        Ok(times
            .update_end
            .map(|times| times.update.end.unwrap_or(times.update.start)))
    }

    /// Whether the record may contain this JSON text. False only if the record doesn't contain it.
    pub(crate) fn may_contain(&self, text: &JsonText) -> bool {
        let made = self.made.get().as_bytes();
        // JSON allows other escapes for a character than those that `serde_json` writes.
        let is_other = |at| matches!(made.get(at + 1), Some(b'u' | b'/'));
        text.0.find(made).is_some() || memchr_iter(b'\\', made).any(is_other)
    }

    /// Whether the record lists the resources that the revision changed. May be false although it lists them.
    pub(crate) fn lists_changes(&self) -> bool {
        // The quotes within a JSON string are escaped, so this text is a member of an object, never a part of a string.
        static LISTED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""changed":{"listed":["#));
        LISTED.find(self.made.get().as_bytes()).is_some()
    }

    /// Whether the revision was stored without becoming current.
    pub(crate) fn is_detached(&self) -> bool {
        self.made.get().starts_with(r#"{"detached-revision":"#)
    }

    fn damaged(&self) -> Error {
        let object = format!("page of the history with revision {}", self.revision);
        Error::corrupt(object, 0, "the record of the revision can't be parsed")
    }
}

/// A part of a JSON text, encoded as `serde_json` encodes it, to search for in records.
#[derive(Clone, Debug)]
pub(crate) struct JsonText(Finder<'static>);

impl JsonText {
    pub(crate) fn new(text: &str) -> Self {
        Self(Finder::new(text.as_bytes()).into_owned())
    }

    /// The JSON string with this content.
    pub(crate) fn string(content: &str) -> Self {
        // `Value` is displayed as JSON, as `serde_json` encodes it.
        Self::new(&serde_json::Value::from(content).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{EncodedDocument, JsonText};

    fn document(made: &str) -> EncodedDocument {
        let chain = "0123456789abcdef".repeat(4);
        let text = format!(r#"{{"revision":"3-0123456789abcdef","slot":5,"chain":"{chain}","made":{made}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn text_in_any_spelling_may_be_contained() {
        let quoted = r#"a.b["x/y"]"#;
        let written = document(&format!(
            r#"{{"address":{}}}"#,
            serde_json::to_string(quoted).unwrap()
        ));
        assert!(written.may_contain(&JsonText::string(quoted)));
        assert!(
            !written.may_contain(&JsonText::string("a.b")),
            "a part of a string isn't the string"
        );
        for escaped in [r#"{"address":"\u0061.b"}"#, r#"{"address":"a\/b"}"#] {
            assert!(
                document(escaped).may_contain(&JsonText::string("other")),
                "{escaped}"
            );
        }
        let slot = document(r#"{"start":12}"#);
        assert!(slot.may_contain(&JsonText::new(r#""start":12"#)));
        assert!(!slot.may_contain(&JsonText::new(r#""start":13"#)));
    }

    #[test]
    fn only_a_member_lists_changes() {
        assert!(document(r#"{"update-end":{"changed":{"listed":[]}}}"#).lists_changes());
        for other in [
            r#"{"update-end":{"changed":"many"}}"#,
            r#"{"update-end":{}}"#,
            r#"{"update-end":{"update":{"message":"\"changed\":{\"listed\":["}}}"#,
        ] {
            assert!(!document(other).lists_changes(), "{other}");
        }
    }

    #[test]
    fn time_is_the_end_of_the_update_or_its_start() {
        let ended = |made: &str| document(made).ended().unwrap().map(|time| time.into_owned());
        let whole = r#"{"update-end":{"serial":3,"update":{"start":"1","end":"2"},"entries":1}}"#;
        assert_eq!(ended(whole).as_deref(), Some("2"));
        assert_eq!(
            ended(r#"{"update-end":{"update":{"start":"1"}}}"#).as_deref(),
            Some("1")
        );
        let detached = document(r#"{"detached-revision":{"serial":3}}"#);
        assert!(detached.is_detached());
        assert_eq!(detached.ended().unwrap(), None);
        assert!(document(r#"{"update-end":[]}"#).ended().is_err());
    }
}

//! A validated text that owns its bytes: [`IndexedText`].

use std::fmt;

use super::Limits;
use super::document::{Document, validate};
use super::error::JsonError;
use super::index::ContainerIndex;

/// A text that was validated once, with the ends of its containers. Its value can be read again and again without another
/// pass over the text, and by parts, so that a reader can free the parts that it has read.
pub struct IndexedText {
    text: String,
    /// The offset at which the value starts.
    start: usize,
    index: ContainerIndex,
}

impl IndexedText {
    /// Validates a text. Returns the bytes with the error if they aren't valid.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`].
    pub fn parse(bytes: Vec<u8>, limits: &Limits) -> Result<Self, (JsonError, Vec<u8>)> {
        let mut index = ContainerIndex::default();
        match validate(&bytes, limits, Some(&mut index)).map(|(_, start)| start) {
            Ok(start) => Ok(Self {
                // The text was validated, so it is UTF-8.
                text: String::from_utf8(bytes).unwrap_or_default(),
                start,
                index,
            }),
            Err(error) => Err((error, bytes)),
        }
    }

    /// Returns the whole text as a document.
    pub fn document(&self) -> Document<'_> {
        Document::validated(&self.text, self.start, &self.index)
    }

    /// Returns the text and the index of its containers. [`Document::of_part`] reads values in parts of the text.
    pub fn into_parts(self) -> (String, ContainerIndex) {
        (self.text, self.index)
    }

    /// Returns the bytes of the text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

impl fmt::Debug for IndexedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedText({} bytes)", self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::IndexedText;
    use crate::json::tests::nested_value;
    use crate::json::{Document, Limits, View};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;

    /// The text and the offset of a value and of all values within it.
    fn values(view: View<'_>, found: &mut Vec<(String, usize)>) {
        found.push((view.text().to_owned(), view.offset()));
        for child in view.members().into_iter().flatten().map(|(_, child)| child) {
            values(child, found);
        }
        for child in view.elements().into_iter().flatten() {
            values(child, found);
        }
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn values_of_a_part_are_those_of_the_whole(list in proptest::collection::vec(nested_value(), 1..5)) {
            let text = format!(" [{}] ", list.join(" , "));
            let indexed = IndexedText::parse(text.clone().into_bytes(), &Limits::default()).unwrap();
            let elements: Vec<View<'_>> = indexed.document().root().elements().unwrap().collect();
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            elements.iter().for_each(|element| values(*element, &mut expected));
            let ranges: Vec<_> = elements.iter().map(View::range).collect();
            let (text, index) = indexed.into_parts();
            for range in ranges {
                let part = &text[range.start - 1..];
                values(Document::of_part(part, range.start - 1, range, &index).root(), &mut found);
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn invalid_bytes_are_returned_with_the_error() {
        let (error, bytes) = IndexedText::parse(b"[1,".to_vec(), &Limits::default()).unwrap_err();
        assert_eq!(bytes, b"[1,");
        assert!(error.to_string().contains("ends"), "{error}");
    }
}

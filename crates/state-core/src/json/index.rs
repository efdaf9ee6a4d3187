//! The ends of the containers of a large text, so that a reader passes over a value without reading it.

/// The ends of the objects and arrays of a text, which [`IndexedText::parse`](super::IndexedText::parse) notes. A reader that
/// visits the levels of a large text would otherwise read the text of a container once a level.
///
/// Takes about 12 bytes for each container of 64 bytes or more.
#[derive(Debug, Default)]
pub struct ContainerIndex {
    /// The containers, in the order in which they begin.
    ends: Vec<ContainerEnd>,
    /// The places, in `ends`, of the containers that are open.
    open: Vec<usize>,
}

/// The end of a container. A list of them begins with the container itself, then come those within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerEnd {
    /// Offset of the opening bracket, in bytes.
    start: u32,
    /// Length with both brackets, in bytes.
    length: u32,
    /// The number of containers in the list up to the next one that isn't within this one.
    skip: u32,
}

/// Shorter containers aren't noted: their end is found as fast.
const SHORTEST: u32 = 64;

impl ContainerIndex {
    /// Begins to note the containers of a text. Returns nothing if the text is too long.
    pub(super) fn begin(&mut self, text: &str) -> Option<&mut Self> {
        u32::try_from(text.len()).is_ok().then_some(self)
    }

    pub(super) fn open(&mut self, at: usize) {
        self.open.push(self.ends.len());
        self.ends.push(ContainerEnd {
            start: offset(at),
            length: 0,
            skip: 0,
        });
    }

    /// Notes the end of the innermost open container: the offset after its bracket.
    pub(super) fn close(&mut self, end: usize) {
        let Some(place) = self.open.pop() else {
            return;
        };
        let within = self.ends.len() - place;
        let noted = &mut self.ends[place];
        noted.length = offset(end) - noted.start;
        noted.skip = offset(within);
        if noted.length < SHORTEST {
            // Containers within it are shorter, so they were removed before.
            self.ends.truncate(place);
        }
    }

    pub(super) fn ends(&self) -> &[ContainerEnd] {
        &self.ends
    }

    /// The list of the container that begins at `start`; empty if it wasn't noted.
    pub(super) fn ends_at(&self, start: usize) -> &[ContainerEnd] {
        let first = self.ends.partition_point(|end| (end.start as usize) < start);
        let mut ends = &self.ends[first..];
        take(&mut ends, start).map_or(&[], |(_, own)| own)
    }
}

/// An offset in a text for which [`ContainerIndex::begin`] returned an index: it fits.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Takes the container that begins at `start`, and those within it, off a list that begins with the next containers.
/// Returns its length and its own list; none if it wasn't noted.
pub(super) fn take<'a>(ends: &mut &'a [ContainerEnd], start: usize) -> Option<(usize, &'a [ContainerEnd])> {
    let first = ends.first().filter(|first| first.start as usize == start)?;
    let (own, rest) = ends.split_at_checked(first.skip as usize)?;
    *ends = rest;
    Some((first.length as usize, own))
}

#[cfg(test)]
mod tests {
    use crate::json::tests::nested_value;
    use crate::json::{Document, IndexedText, Limits, View};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::ops::Range;

    /// The ranges of a value and of all values within it.
    fn ranges(view: View<'_>, found: &mut Vec<Range<usize>>) {
        found.push(view.range());
        for child in view.members().into_iter().flatten().map(|(_, child)| child) {
            ranges(child, found);
        }
        for child in view.elements().into_iter().flatten() {
            ranges(child, found);
        }
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn views_with_an_index_find_the_same_values(value in nested_value()) {
            let text = format!(" {value} ");
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            let document = Document::parse(text.as_bytes(), &Limits::default()).unwrap();
            ranges(document.root(), &mut expected);
            let indexed = IndexedText::parse(text.clone().into_bytes(), &Limits::default()).unwrap();
            ranges(indexed.document().root(), &mut found);
            prop_assert_eq!(found, expected, "{}", text);
        }
    }

    #[test]
    fn containers_of_a_large_text_are_noted() {
        let text = format!("{{\"a\": [{}], \"b\": {{}}}}", ["\"0123456789\""; 40].join(","));
        let indexed = IndexedText::parse(text.into_bytes(), &Limits::default()).unwrap();
        let (_, index) = indexed.into_parts();
        assert_eq!(index.ends().len(), 2, "the object and its array");
    }
}

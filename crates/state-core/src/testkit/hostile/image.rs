//! The content of a store at one moment, as an attacker sees it.

use super::Edit;
use crate::{Digest, Enveloped, Frame, Head, Lineage};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The objects of a store by their path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreImage {
    objects: BTreeMap<String, Bytes>,
}

impl StoreImage {
    /// Creates an image from paths and contents.
    pub fn new(objects: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        Self {
            objects: objects.into_iter().collect(),
        }
    }

    /// The content of an object, if the object exists.
    pub fn get(&self, object: &str) -> Option<&Bytes> {
        self.objects.get(object)
    }

    /// The paths and contents of all objects below a folder.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
        let after = self.objects.range(folder.to_owned()..);
        after
            .take_while(move |(object, _)| object.starts_with(folder))
            .map(|(object, bytes)| (object.as_str(), bytes))
    }

    /// The paths and contents of all objects.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.objects
            .iter()
            .map(|(object, bytes)| (object.as_str(), bytes))
    }

    /// The head of a stack, if it can be decoded. Its tag isn't checked, so the head may be forged.
    pub fn head(&self, lineage: Lineage) -> Option<Head> {
        let object = head_of(lineage);
        Head::decode(&object, self.get(&object)?).ok()
    }

    /// The frames of a stack's journal, each with the chain before it. A frame that doesn't follow its predecessor in
    /// this list begins a new part: the frames between were deleted or changed.
    pub fn frames(&self, lineage: Lineage) -> Vec<(Digest, Frame)> {
        let frames = super::frames::frames(self, lineage).into_iter();
        frames.map(|(_, before, frame)| (before, frame)).collect()
    }

    /// The frames that the compactions of a stack in a file system repeat, as [`Self::frames`] returns those of the journal.
    pub fn compacted_frames(&self, lineage: Lineage) -> Vec<(Digest, Frame)> {
        let frames = super::frames::compacted(self, lineage).into_iter();
        frames.map(|(_, before, frame)| (before, frame)).collect()
    }

    /// The image after these edits.
    #[must_use]
    pub fn with(&self, edits: &[Edit]) -> Self {
        let mut image = self.clone();
        for edit in edits {
            match &edit.content {
                Some(content) => image.objects.insert(edit.object.clone(), content.clone()),
                None => image.objects.remove(&edit.object),
            };
        }
        image
    }
}

/// The path of a stack's head.
pub(super) fn head_of(lineage: Lineage) -> String {
    format!("stacks/{lineage}/head.json")
}

//! The revisions of a damaged stack that can be read, each by its own frames and snapshots.

use crate::objects::document::RevisionDocument;
use crate::salvage::head_template::{Client, HeadTemplate};
use crate::salvage::rebuild::{self, Beginning, RebuiltStack};
use crate::salvage::stack_files::StackFiles;
use state_core::{Digest, Error, Result, RevisionId, Snapshot};
use std::collections::BTreeMap;

/// The revisions that can be read and those that can't.
pub(super) struct Survivors {
    pub(super) surviving: Vec<RevisionId>,
    pub(super) lost: Vec<RevisionId>,
    /// The stack up to its newest intact frame.
    pub(super) current: Result<RebuiltStack>,
}

impl Survivors {
    /// The revision whose state a salvage restores: the current one of the stack up to its newest intact frame, else the newest
    /// that can be read.
    pub(super) fn restorable(&self, files: &StackFiles) -> Option<RevisionId> {
        match &self.current {
            Ok(rebuilt) => rebuilt.view.state.current().cloned(),
            Err(_) => newest_end(files, &self.surviving).map(|(document, _)| document.revision.clone()),
        }
    }
}

/// The newest of these revisions that an update made, and the chain after its frame.
pub(super) fn newest_end<'f>(
    files: &'f StackFiles,
    surviving: &[RevisionId],
) -> Option<(&'f RevisionDocument, Digest)> {
    let documents = surviving.iter().filter_map(|id| files.revisions.get(id));
    let ends = documents.filter_map(|document| Some((document, rebuild::end_of(files, document)?)));
    ends.max_by_key(|(document, _)| document.slot)
}

/// Reads each revision of a stack. First the newest state that is intact, with its history; then, each for itself, the
/// revisions that this history doesn't contain.
pub(super) async fn of(client: &Client, files: &StackFiles, template: &HeadTemplate) -> Survivors {
    let current = match files.end() {
        Some(end) => {
            Box::pin(rebuild::rebuild(
                client,
                files,
                template,
                &end,
                Beginning::Earliest,
            ))
            .await
        }
        // Nothing was written yet to a stack that is intact.
        None if template.is_stored && files.damage.is_empty() => {
            Box::pin(rebuild::complete(client, files, template)).await
        }
        None => {
            let object = format!("journal of stack {}", files.lineage);
            Err(Error::corrupt(object, 0, "it has no intact frame"))
        }
    };
    let mut read = BTreeMap::new();
    if let Ok(rebuilt) = &current {
        for revision in rebuilt.view.history().await.unwrap_or_default() {
            let is_readable = rebuilt.view.get(&revision.id).await.is_ok();
            read.insert(revision.id, is_readable);
        }
    }
    for (id, document) in &files.revisions {
        if read.get(id) == Some(&true) || files.is_collected(id) || is_forgotten(&current, id) {
            continue;
        }
        let is_readable = Box::pin(at_revision(client, files, template, document))
            .await
            .is_ok();
        read.insert(id.clone(), is_readable);
    }
    // If the frames that made the restored revision are lost, a checkpoint after them has its state.
    if let Ok(rebuilt) = &current
        && let Some(restored) = rebuilt.view.state.current()
        && read.get(restored) == Some(&false)
    {
        read.remove(restored);
    }
    let ids = |wanted: bool| {
        let matching = read.iter().filter(|(_, is_readable)| **is_readable == wanted);
        matching.map(|(id, _)| id.clone()).collect()
    };
    Survivors {
        surviving: ids(true),
        lost: ids(false),
        current,
    }
}

fn is_forgotten(current: &Result<RebuiltStack>, revision: &RevisionId) -> bool {
    let current = current.as_ref();
    current.is_ok_and(|rebuilt| rebuilt.view.state.is_forgotten(revision))
}

/// The stack as it was at a revision, with the content of the revision.
///
/// # Errors
/// `Corrupt` if frames or snapshots that lead to the revision are damaged.
pub(super) async fn at_revision(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
    document: &RevisionDocument,
) -> Result<(RebuiltStack, Snapshot)> {
    let object = || format!("revision {} of stack {}", document.revision, files.lineage);
    let Some(end) = rebuild::end_of(files, document) else {
        return Err(Error::corrupt(
            object(),
            0,
            "the frame that made it is damaged or missing",
        ));
    };
    let rebuilt = rebuild::rebuild(client, files, template, &end, Beginning::Latest).await?;
    let snapshot = rebuilt.view.get(&document.revision).await?;
    Ok((rebuilt, snapshot))
}

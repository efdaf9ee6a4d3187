//! Reads the objects of a stack in files, and finds those that are damaged or missing. An object is intact if it matches
//! the digest in its name, or the digest in an intact document that names it.

use crate::compute::compute;
use crate::objects::document::RevisionDocument;
use crate::objects::{history_index, history_page, stored_object};
use crate::salvage::damage::Damage;
use crate::salvage::damaged_store::SharedStore;
use crate::salvage::stack_files::StackFiles;
use state_core::backend::{ObjectKind, ObjectName, Tail};
use state_core::history::HistoryPageRef;
use state_core::journal::{FrameKind, Record, decode_records};
use state_core::{Digest, Result, SnapshotRef};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the objects of one kind.
pub(super) async fn read(store: &SharedStore, kind: ObjectKind, files: &mut StackFiles) -> Result<()> {
    let folder = kind.path(files.lineage);
    for file in store.entries(&folder).await? {
        let Some(name) = ObjectName::from_file_name(kind, &file) else {
            continue;
        };
        let path = format!("{folder}/{file}");
        let Some(bytes) = store.read(&path).await? else {
            // Unless it was deleted since it was listed.
            if store.entries(&folder).await?.contains(&file) {
                files.damage.push(Damage::new(path, "it isn't a regular file"));
            }
            continue;
        };
        // Snapshots are large: they are decompressed and hashed on a background thread.
        let (checked, stored) = (name.clone(), bytes.clone());
        let check = move || (stored_object::fault(&checked, &stored), Digest::of(&stored));
        let (fault, digest) = compute(check).await?;
        match fault {
            None => files.objects.add_stored(name, bytes, digest),
            // Without the file of a replaced key the stack works: a verification notes that earlier values stay sealed.
            Some(_) if is_replaced_key(&name, files) => {}
            Some(reason) => files.damage.push(Damage::new(path, reason)),
        }
    }
    Ok(())
}

/// Whether an object is a file of a data key that the head doesn't name any more.
fn is_replaced_key(name: &ObjectName, files: &StackFiles) -> bool {
    let current = files.head.as_ref().and_then(|head| head.key_id);
    matches!((name, current), (ObjectName::Key { id, .. }, Some(current)) if *id != current)
}

/// Adds the revisions on intact pages of the history. A page that the head names proves its documents.
pub(super) fn add_paged_revisions(files: &mut StackFiles) {
    for page in pages(files) {
        let Some(bytes) = files.objects.in_memory(&page.object()) else {
            continue;
        };
        let encoded =
            history_page::decode("page", bytes, &page).map_or_else(|_| Vec::new(), |page| page.documents);
        for document in encoded.iter().filter_map(|document| document.decode().ok()) {
            files.paged.push(Tail {
                next: document.slot.next(),
                chain: document.chain,
            });
            files
                .revisions
                .entry(document.revision.clone())
                .or_insert(document);
        }
    }
}

/// The pages that the head and an intact index name.
fn pages(files: &StackFiles) -> Vec<HistoryPageRef> {
    let Some(head) = &files.head else {
        return Vec::new();
    };
    let index = head.history.index.as_ref();
    let indexed = index.and_then(|index| {
        let bytes = files.objects.in_memory(&index.object())?;
        history_index::decode("index", bytes, index).ok()
    });
    indexed
        .into_iter()
        .flatten()
        .chain(head.history.pages.iter().copied())
        .collect()
}

/// Reports the objects that the head, the journal or a revision names and that are missing, and logs that differ from
/// their digest.
pub(super) fn check_references(files: &mut StackFiles) {
    let mut named: BTreeSet<ObjectName> = pages(files).iter().map(HistoryPageRef::object).collect();
    if let Some(head) = &files.head {
        named.extend(
            head.bases()
                .flat_map(|(_, base)| base.snapshots())
                .map(SnapshotRef::object),
        );
        named.extend(head.history.index.iter().map(|index| index.object()));
        let keys = head.keys.iter().zip(head.key_id);
        let keys = keys.flat_map(|(keys, id)| keys.files.iter().map(move |number| (*number, id)));
        named.extend(keys.map(|(number, id)| ObjectName::Key { number, id }));
    }
    named.extend(snapshots_in_journal(files));
    let is_damaged: BTreeSet<&str> = files.damage.iter().map(|damage| damage.object.as_str()).collect();
    let path = |name: &ObjectName| format!("{}/{}", name.kind().path(files.lineage), name.file_name());
    let missing = named
        .iter()
        .filter(|name| !files.objects.contains(name))
        .map(path);
    let missing = missing.filter(|path| !is_damaged.contains(path.as_str()));
    let mut found: Vec<Damage> = missing.map(|path| Damage::new(path, "it is missing")).collect();
    let mut changed = Vec::new();
    for document in files.revisions.values() {
        let name = ObjectName::Log(document.revision.serial());
        if let (Some(log), Some(stored)) = (document.log(), files.objects.identity(&name))
            && (log.length, log.digest) != stored
        {
            found.push(Damage::new(
                path(&name),
                "its content doesn't match the digest in the history",
            ));
            changed.push(name);
        }
    }
    files.damage.extend(found);
    files.objects.retain(|name| !changed.contains(name));
}

/// The snapshots that counting frames need, without those that a collection may have deleted. An earlier checkpoint isn't
/// needed: the frames before it lead to the same state.
fn snapshots_in_journal(files: &StackFiles) -> BTreeSet<ObjectName> {
    let floor = files.head.as_ref().map(|head| head.floor).unwrap_or_default();
    let chain = files.chain().map(|chain| chain.frames).unwrap_or_default();
    let live = chain
        .iter()
        .filter(|frame| frame.kind() == FrameKind::Data && frame.slot() >= floor);
    let records = live.flat_map(|frame| decode_records("frame", frame.payload()).unwrap_or_default());
    let mut named = BTreeMap::new();
    for record in records {
        let references = match record {
            Record::ResetBase(reset) => vec![reset.snapshot],
            _ => Vec::new(),
        };
        named.extend(references.into_iter().map(|reference| (reference.object(), ())));
    }
    let detached = files
        .revisions
        .values()
        .filter(|document| !files.is_collected(&document.revision));
    let detached = detached.filter_map(RevisionDocument::detached_snapshot);
    named
        .into_keys()
        .chain(detached.map(SnapshotRef::object))
        .collect()
}

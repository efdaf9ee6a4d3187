//! Forged heads: one forgery for each field that an attacker would like to change. The digest of the head needs no key
//! and is recomputed; its tag is copied, removed or made with a former key.

use super::image::head_of;
use super::loot::{Loot, MARKER};
use super::{Edit, StoreImage};
use crate::backend::{ClientLock, Holder};
use crate::digest::Digest;
use crate::head::{Collection, Compaction, Keys, PendingRename, SealingPolicy};
use crate::{Base, Enveloped, Epoch, Generation, Head, Nonce, Serial, Slot, Timestamp};

/// A name, and a change of one field of the head or of a few that belong together.
pub(super) type HeadForgery = (&'static str, fn(&mut Head, &Loot));

/// All changes of the head, at least one for each field that a client uses.
pub(super) const HEADS: &[HeadForgery] = &[
    ("another recipient", |head, loot| {
        each_keys(head, |keys| keys.recipients.push(loot.recipient.clone()));
    }),
    ("only another recipient", |head, loot| {
        each_keys(head, |keys| keys.recipients = vec![loot.recipient.clone()]);
    }),
    ("another recipient of the outputs", |head, loot| {
        each_keys(head, |keys| keys.outputs.push(loot.recipient.clone()));
    }),
    ("name of a recipient", |head, loot| {
        each_keys(head, |keys| {
            keys.names.insert(loot.recipient.clone(), MARKER.to_owned());
        });
    }),
    // Nothing signs the head of a plain stack. Recipients in such a head must not become part of the first signed head.
    ("recipients and no key", |head, loot| {
        let recipients = vec![loot.recipient.clone()];
        let keys = Keys {
            generation: 1,
            since: Slot::ZERO,
            files: Vec::new(),
            outputs: recipients.clone(),
            recipients,
            names: Default::default(),
            succession: Vec::new(),
        };
        (head.key_id, head.keys, head.tag) = (None, Some(keys), None);
    }),
    ("plaintext policy", |head, _| {
        head.policy = SealingPolicy::Plaintext;
    }),
    ("weaker policy", |head, _| head.policy = SealingPolicy::Sensitive),
    ("no key", |head, _| {
        (head.key_id, head.keys, head.tag) = (None, None, None);
    }),
    ("no key and plaintext", |head, _| {
        (head.key_id, head.keys, head.tag) = (None, None, None);
        head.policy = SealingPolicy::Plaintext;
    }),
    ("no tag", |head, _| head.tag = None),
    ("no tags of frames", |head, _| {
        each_keys(head, |keys| keys.since = Slot(1 << 40));
    }),
    ("tags of all frames", |head, _| {
        each_keys(head, |keys| keys.since = Slot::ZERO);
    }),
    ("later generation of the key", |head, _| {
        each_keys(head, |keys| keys.generation += 1);
    }),
    ("no succession of keys", |head, _| {
        each_keys(head, |keys| keys.succession.clear());
    }),
    ("longer validity of a former key", |head, _| {
        each_keys(head, |keys| {
            keys.succession
                .iter_mut()
                .for_each(|link| link.until = Slot(1 << 40));
        });
    }),
    ("no files of the key", |head, _| {
        each_keys(head, |keys| keys.files.clear());
    }),
    ("former key", |head, loot| {
        if let Some(former) = &loot.former {
            head.key_id = Some(former.id());
            head.sign(&**former);
        }
    }),
    ("tag under a former key", |head, loot| {
        if let Some(former) = &loot.former {
            head.sign(&**former);
        }
    }),
    ("another recipient under a former key", |head, loot| {
        each_keys(head, |keys| keys.recipients.push(loot.recipient.clone()));
        if let Some(former) = &loot.former {
            head.key_id = Some(former.id());
            head.sign(&**former);
        }
    }),
    ("next epoch", |head, _| head.epoch = Epoch(head.epoch.get() + 1)),
    ("distant epoch", |head, _| {
        head.epoch = Epoch(Epoch::MAX.get() - 9);
    }),
    ("highest epoch", |head, _| head.epoch = Epoch::MAX),
    ("epoch zero", |head, _| head.epoch = Epoch::ZERO),
    ("next generation of the lock", |head, _| {
        head.generation = Generation(head.generation.get() + 1);
    }),
    ("empty base", |head, _| {
        head.base = Base::empty(head.lineage);
        (head.rev_base, head.watermark, head.collection) = (None, None, None);
        head.history.pages.clear();
        head.floor = Slot::ZERO;
    }),
    ("base without its snapshot", |head, _| head.base.snapshot = None),
    ("base without its content", |head, _| head.base.content = None),
    ("content of the base from its own snapshot", |head, _| {
        head.base.content = head.base.snapshot.clone().map(Box::new);
    }),
    ("later base", |head, _| head.base.start = head.base.start.next()),
    ("other base of the revision", |head, _| {
        head.rev_base = Some(Base::empty(head.lineage));
    }),
    ("no watermark", |head, _| head.watermark = None),
    ("later watermark", |head, _| {
        if let Some(watermark) = &mut head.watermark {
            watermark.slot = watermark.slot.next();
        }
    }),
    ("later floor", |head, _| head.floor = head.base.start),
    ("collection", |head, _| {
        head.collection = Some(Collection {
            base: head.base.clone(),
            serial: Serial(1 << 20),
            since: Timestamp::new("2026-01-01T00:00:00Z"),
            forgotten: Default::default(),
        });
        head.floor = head.base.start;
    }),
    ("no collection", |head, _| {
        (head.collection, head.floor) = (None, Slot::ZERO);
    }),
    ("no history", |head, _| head.history.pages.clear()),
    ("last page of the history dropped", |head, _| {
        let length = head.history.pages.len();
        head.history.pages.truncate(length.saturating_sub(1));
    }),
    ("other digest of a page", |head, _| {
        head.history
            .pages
            .iter_mut()
            .for_each(|page| page.digest = Digest::of(MARKER.as_bytes()));
    }),
    ("client lock", |head, _| {
        head.client_lock = Some(ClientLock {
            id: MARKER.to_owned(),
            holder: Holder::default(),
            message: String::new(),
            expires: None,
        });
    }),
    ("no client lock", |head, _| head.client_lock = None),
    ("name of another stack", |head, loot| {
        if let Some(name) = &loot.other_name {
            head.name = name.clone();
        }
    }),
    ("rename in progress", |head, loot| {
        head.moving_to = loot.other_name.clone().map(|name| PendingRename {
            name,
            nonce: Nonce::from_bytes([0x66; 16]),
        });
    }),
    ("no rename in progress", |head, _| head.moving_to = None),
    ("removal", |head, _| head.removed = true),
    ("origin of a copy", |head, _| {
        head.copied_from = Some(format!("file:///{MARKER}"));
    }),
    ("lineage of another stack", |head, loot| {
        if let Some(other) = loot.other {
            head.lineage = other;
        }
    }),
    ("compaction", |head, _| {
        head.compactions = vec![Compaction {
            start: Slot::ZERO,
            end: Slot(64),
            digest: Digest::of(MARKER.as_bytes()),
            length: 64,
        }];
    }),
    ("closed journal", |head, _| head.closed = !head.closed),
];

/// Changes the key document of a head, if the stack is sealed.
fn each_keys(head: &mut Head, change: impl FnOnce(&mut Keys)) {
    if let Some(keys) = &mut head.keys {
        change(keys);
    }
}

/// Replaces the head by a changed copy with a recomputed digest.
pub(super) fn forged(store: &StoreImage, loot: &Loot, change: fn(&mut Head, &Loot)) -> Vec<Edit> {
    let Some(mut head) = store.head(loot.lineage) else {
        return Vec::new();
    };
    change(&mut head, loot);
    vec![Edit::put(head_of(loot.lineage), head.encode())]
}

/// Replaces the head by the one of an earlier moment, with the current epoch and lock generation, which the tag doesn't
/// cover.
pub(super) fn older_with_epoch(store: &StoreImage, earlier: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let (Some(now), Some(mut head)) = (store.head(loot.lineage), earlier.head(loot.lineage)) else {
        return Vec::new();
    };
    (head.epoch, head.generation) = (now.epoch, now.generation);
    vec![Edit::put(head_of(loot.lineage), head.encode())]
}

/// Replaces the head by that of another stack, with the lineage and name of the attacked stack.
pub(super) fn of_other_stack(store: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let Some(mut head) = loot.other.and_then(|other| store.head(other)) else {
        return Vec::new();
    };
    let Some(now) = store.head(loot.lineage) else {
        return Vec::new();
    };
    (head.lineage, head.name) = (now.lineage, now.name);
    vec![Edit::put(head_of(loot.lineage), head.encode())]
}

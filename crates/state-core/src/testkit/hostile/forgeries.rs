//! The catalogue of forgeries that an attacker without the data key can make of each kind of stored object.
//!
//! A row of the catalogue is a function from the content of the whole store to edits. Except for simple damage (an
//! object is deleted, emptied, or has one flipped bit), the rows recompute every digest and chain that needs no key. A
//! client can detect such a forgery only by a tag (a MAC under the data key), by a digest in an object that has a tag,
//! or by a pin (the last state of the stack that this client has seen). A forgery with content that no client wrote
//! contains the text [`MARKER`].
//!
//! A backend outside of this repository runs the catalogue over its own adapter: see [`schedule`](super::schedule).

pub use super::loot::{Loot, MARKER};

use super::journals::{ForgedHead, ForgedTag, StoredJournal, invented};
use super::{Action, Edit, Rewrite, StoreImage, StoredKind, documents, heads, logs, plain, replays};
use crate::backend::NameTarget;
use crate::journal::FrameKind;
use crate::{Lineage, Nonce};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;

/// A forgery, and the kind of object that it changes.
#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    /// The kind of object. Tests try the forgery before requests for objects of this kind.
    pub kind: StoredKind,
    /// A short description for messages, unique among the forgeries of its kind.
    pub name: String,
    /// The forgery as an action on an object of that kind.
    pub action: Action,
}

/// Returns every forgery that is possible with this loot.
pub fn catalogue(loot: &Arc<Loot>) -> Vec<CatalogueEntry> {
    let mut rows = Rows {
        loot: Arc::clone(loot),
        entries: Vec::new(),
    };
    for kind in StoredKind::ALL {
        rows.any(kind);
        match kind {
            StoredKind::Head => rows.heads(),
            StoredKind::Journal => rows.journals(),
            StoredKind::Name => rows.names(),
            StoredKind::HistoryPage => rows.pages(),
            StoredKind::Snapshot => rows.snapshots(),
            StoredKind::Key => rows.keys(),
            StoredKind::Format | StoredKind::Meta | StoredKind::Lock => rows.small_documents(kind),
            StoredKind::Log => rows.logs(),
            StoredKind::Outputs => rows.outputs(),
        }
    }
    rows.replays();
    rows.entries
}

/// Returns an action that chooses a forgery by the kind of the object on which it is performed: see [`choose`]. The
/// same `choice` and kind give the same forgery.
pub fn any_of(catalogue: Arc<Vec<CatalogueEntry>>, choice: u64) -> Action {
    Action::Rewrite(Rewrite::new("any forgery", move |store, object| {
        let chosen = choose(&catalogue, choice, object);
        chosen.map(|entry| entry.edits(store, object)).unwrap_or_default()
    }))
}

/// Returns the forgery that [`any_of`] chooses for an object; `None` for an object of an unknown kind.
pub fn choose<'a>(catalogue: &'a [CatalogueEntry], choice: u64, object: &str) -> Option<&'a CatalogueEntry> {
    let kind = StoredKind::of(object)?;
    let of_kind: Vec<_> = catalogue.iter().filter(|entry| entry.kind == kind).collect();
    let at = choice.checked_rem(of_kind.len() as u64)?;
    of_kind.get(usize::try_from(at).ok()?).copied()
}

impl CatalogueEntry {
    /// The edits of the forgery in a store.
    pub fn edits(&self, store: &StoreImage, object: &str) -> Vec<Edit> {
        match &self.action {
            Action::Rewrite(rewrite) => rewrite.apply(store, object),
            _ => Vec::new(),
        }
    }
}

/// Collects the rows of the catalogue.
struct Rows {
    loot: Arc<Loot>,
    entries: Vec<CatalogueEntry>,
}

impl Rows {
    fn add(
        &mut self,
        kind: StoredKind,
        name: impl Into<String>,
        edits: impl Fn(&StoreImage, &str, &Loot) -> Vec<Edit> + Send + Sync + 'static,
    ) {
        let (name, loot) = (name.into(), Arc::clone(&self.loot));
        let action = Action::Rewrite(Rewrite::new(name.clone(), move |store, object| {
            edits(store, object, &loot)
        }));
        self.entries.push(CatalogueEntry { kind, name, action });
    }

    /// Adds the forgeries that are possible with objects of every kind.
    fn any(&mut self, kind: StoredKind) {
        self.add(kind, "deleted", |_, object, _| vec![Edit::delete(object)]);
        self.add(kind, "flipped bit", |store, object, _| {
            documents::flipped(store, object)
        });
        self.add(kind, "empty", |_, object, _| {
            vec![Edit::put(object, Bytes::new())]
        });
        self.add(kind, "neighbour", |store, object, _| {
            documents::neighbour(store, object)
        });
        self.add(kind, "object of another stack", documents::of_other_stack);
    }

    fn heads(&mut self) {
        for (name, change) in heads::HEADS {
            self.add(StoredKind::Head, *name, |store, _, loot| {
                heads::forged(store, loot, *change)
            });
        }
        self.add(StoredKind::Head, "head of another stack", |store, _, loot| {
            heads::of_other_stack(store, loot)
        });
        for kind in [StoredKind::Head, StoredKind::Name, StoredKind::Journal] {
            self.add(kind, "empty plain stack", |store, _, loot| {
                plain::empty_stack(store, loot)
            });
        }
        for at in 0..self.loot.earlier.len() {
            let name = format!("head of stage {at} with the present epoch");
            self.add(StoredKind::Head, name, move |store, _, loot| {
                heads::older_with_epoch(store, &loot.earlier[at], loot)
            });
        }
    }

    fn journals(&mut self) {
        for (name, change) in CHANGES {
            for tag in self.tags() {
                for head in ForgedHead::ALL.into_iter().filter(|head| head.suits(tag)) {
                    let name = format!("{name}, {}, {}", tag.name(), head.name());
                    self.add(StoredKind::Journal, name, move |store, _, loot| {
                        let Some(mut journal) = StoredJournal::read(store, loot) else {
                            return Vec::new();
                        };
                        change(&mut journal);
                        journal.edits(store, loot, tag, head)
                    });
                }
            }
        }
        for (name, change) in CHANGES.iter().filter(|(name, _)| IN_COMPACTIONS.contains(name)) {
            for tag in self.tags() {
                let name = format!("{name} only in the compaction, {}, head adapted", tag.name());
                self.add(StoredKind::Journal, name, move |store, _, loot| {
                    let Some(mut journal) = StoredJournal::read(store, loot) else {
                        return Vec::new();
                    };
                    change(&mut journal);
                    journal.edits_of_compaction(store, loot, tag)
                });
            }
        }
    }

    /// The tags that the attacker can give to a forged frame.
    fn tags(&self) -> Vec<ForgedTag> {
        let former = self.loot.former.as_ref().map(|_| ForgedTag::Former);
        [ForgedTag::Copied, ForgedTag::Stripped]
            .into_iter()
            .chain(former)
            .collect()
    }

    fn names(&mut self) {
        let kind = StoredKind::Name;
        self.add(kind, "removed", |store, object, _| {
            documents::pointer(store, object, |pointer| {
                pointer.target = NameTarget::Removed(pointer.subject());
            })
        });
        self.add(kind, "removed, tag under a former key", |store, object, loot| {
            documents::pointer(store, object, |pointer| {
                pointer.target = NameTarget::Removed(pointer.subject());
                pointer.tags.clear();
                if let Some(former) = &loot.former {
                    pointer.sign(&**former);
                }
            })
        });
        self.add(kind, "no tags", |store, object, _| {
            documents::pointer(store, object, |pointer| pointer.tags.clear())
        });
        self.add(kind, "moved to another name", |store, object, loot| {
            let Some(name) = loot.other_name.clone() else {
                return Vec::new();
            };
            documents::pointer(store, object, |pointer| {
                let lineage = pointer.subject();
                pointer.target = NameTarget::MovedTo { lineage, name };
            })
        });
        self.add(kind, "another stack", |store, object, loot| {
            let Some(other) = loot.other else {
                return Vec::new();
            };
            documents::pointer(store, object, |pointer| {
                pointer.target = NameTarget::Lineage(other);
            })
        });
        self.add(kind, "a stack that doesn't exist", |store, object, _| {
            let lineage = Lineage::from_bits([0x66; 16]);
            documents::pointer(store, object, |pointer| {
                pointer.target = NameTarget::Lineage(lineage);
            })
        });
        self.add(kind, "another nonce", |store, object, _| {
            documents::pointer(store, object, |pointer| {
                pointer.nonce = Nonce::from_bytes([0x66; 16]);
            })
        });
        self.add(kind, "another name for the stack", |store, object, _| {
            documents::moved_name(store, object)
        });
    }

    fn pages(&mut self) {
        let kind = StoredKind::HistoryPage;
        self.add(kind, "forged revision", documents::page);
        self.add(kind, "forged revision that the head names", documents::named_page);
        self.add(kind, "planted page", documents::planted_page);
    }

    fn snapshots(&mut self) {
        let kind = StoredKind::Snapshot;
        self.add(kind, "forged content", |store, object, _| {
            documents::snapshot(store, object)
        });
        self.add(kind, "forged content that the head names", |store, _, loot| {
            documents::named_snapshot(store, loot)
        });
    }

    fn logs(&mut self) {
        let kind = StoredKind::Log;
        self.numbered(kind);
        self.add(kind, "forged lines", |store, object, _| {
            logs::lines(store, object)
        });
        for tag in self.tags() {
            let name = format!("forged lines that the history names, {}", tag.name());
            self.add(kind, name, move |store, object, loot| {
                logs::named_lines(store, object, loot, tag)
            });
        }
    }

    fn outputs(&mut self) {
        let kind = StoredKind::Outputs;
        self.numbered(kind);
        self.add(kind, "outputs under a key of the attacker", |store, _, loot| {
            documents::outputs(store, loot)
        });
        self.add(kind, "later outputs under a key of the attacker", |_, _, loot| {
            documents::later_outputs(loot)
        });
    }

    fn keys(&mut self) {
        self.add(StoredKind::Key, "key of the attacker", |_, object, loot| {
            let wrapped = loot.wrapped.iter();
            wrapped.map(|bytes| Edit::put(object, bytes.clone())).collect()
        });
        self.numbered(StoredKind::Key);
    }

    fn numbered(&mut self, kind: StoredKind) {
        self.add(kind, "repeated under a later number", |store, object, _| {
            documents::later_number(store, object)
        });
    }

    fn small_documents(&mut self, kind: StoredKind) {
        self.add(kind, "another lineage or layout", |store, object, _| {
            documents::body(store, object, |body| {
                documents::set(body, "lineage", json!(Lineage::from_bits([0x66; 16]).to_string()));
                documents::set(body, "layout", json!(99));
                documents::set(body, "released", json!(true));
            })
        });
        self.add(kind, "a later epoch", |store, object, _| {
            documents::body(store, object, |body| {
                let epoch = body.get("epoch").and_then(serde_json::Value::as_u64).unwrap_or(0);
                documents::set(body, "epoch", json!(epoch + 1));
                documents::set(body, "released", json!(false));
            })
        });
    }

    fn replays(&mut self) {
        for at in 0..self.loot.earlier.len() {
            for kind in StoredKind::ALL {
                self.add(kind, format!("object of stage {at}"), move |_, object, loot| {
                    replays::object(&loot.earlier[at], object)
                });
            }
            self.add(
                StoredKind::Head,
                format!("store of stage {at}"),
                move |store, _, loot| replays::store(store, &loot.earlier[at]),
            );
            for kind in [StoredKind::Head, StoredKind::Journal, StoredKind::Key] {
                self.add(kind, format!("stack of stage {at}"), move |store, _, loot| {
                    replays::stack(store, &loot.earlier[at], loot)
                });
            }
            self.add(
                StoredKind::Journal,
                format!("journal of stage {at}"),
                move |store, _, loot| replays::journal(store, &loot.earlier[at], loot),
            );
        }
    }
}

/// Replaces one data frame by a forged one: see [`StoredJournal::planted`]. `from_the_end` is 0 for the last data frame.
fn edit(journal: &mut StoredJournal, from_the_end: usize) {
    if let Some(at) = journal.data().into_iter().rev().nth(from_the_end) {
        journal.frames[at] = journal.planted(at);
    }
}

/// The changes of a journal that are also made only in a compaction, while the segments stay as they are.
const IN_COMPACTIONS: [&str; 3] = [
    "last frame dropped",
    "last frame edited",
    "invented frame appended",
];

type JournalForgery = (&'static str, fn(&mut StoredJournal));

/// Changes of a journal. The chain is recomputed afterwards.
const CHANGES: &[JournalForgery] = &[
    ("last frame dropped", |journal| {
        if let Some(at) = journal.data().pop() {
            journal.frames.remove(at);
        }
    }),
    ("frame in the middle dropped", |journal| {
        let data = journal.data();
        if let Some(at) = data.get(data.len() / 2) {
            journal.frames.remove(*at);
        }
    }),
    ("frame repeated", |journal| {
        if let Some(at) = journal.data().pop() {
            let frame = journal.frames[at].clone();
            journal.frames.push(frame);
        }
    }),
    ("frames exchanged", |journal| {
        if let [.., one, other] = journal.data()[..] {
            journal.frames.swap(one, other);
        }
    }),
    ("last frame edited", |journal| edit(journal, 0)),
    ("earlier frame edited", |journal| edit(journal, 2)),
    ("frame appended", |journal| {
        if let Some(at) = journal.data().pop() {
            let frame = journal.planted(at);
            journal.frames.push(frame);
        }
    }),
    ("invented frame appended", |journal| {
        let frame = invented(journal);
        journal.frames.extend(frame);
    }),
    ("all frames after the first dropped", |journal| {
        journal.frames.truncate(2);
    }),
    ("fence appended", |journal| {
        let fence = journal
            .frames
            .iter()
            .rfind(|frame| frame.kind == FrameKind::Fence);
        if let Some(fence) = fence.cloned() {
            journal.frames.push(fence);
        }
    }),
];

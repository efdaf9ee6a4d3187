//! A stack with its whole history goes to another store, byte for byte.
//!
//! Objects first, then the journal and the head, then the name: before the head the stack isn't there, and before the
//! name nobody finds it. Each step may be made again, so a copy that was cut short is finished by making it again. What
//! is sealed stays sealed: it takes no key. Afterwards the two are compared, by digests and by the chain.

use crate::horizon::{Horizon, whole_journal};
use crate::stack::Stack;
use crate::stacks::Stacks;
use state_core::backend::{JournalView, NamePointer, NameTarget, ObjectKind, ObjectName, Tail};
use state_core::{Backend, Digest, Error, ErrorKind, Head, Lineage, Nonce, Result, StackName};
use std::collections::BTreeMap;

/// What a copy brought over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The stack.
    pub name: StackName,
    /// Its identity, here and there.
    pub lineage: Lineage,
    /// How many frames its journal has.
    pub frames: u64,
    /// How many objects it has beside: snapshots, documents, logs, wrapped keys.
    pub objects: u64,
    /// Whether it was there already, whole.
    pub was_there: bool,
}

/// What a stack consists of.
struct Whole {
    view: JournalView,
    before: Tail,
    objects: BTreeMap<ObjectName, Digest>,
}

impl Stacks {
    /// Copies a stack of another store to this one: its journal, its revisions, its keys, under the same name and with
    /// the same lineage. Takes no lock: it copies what the stack is at one moment. The copy tells where it came from;
    /// which of the two goes on from here is for people to agree.
    ///
    /// # Errors
    /// `Conflict` when another stack has the name here, when this one is here already and went another way, or when it
    /// is in the middle of a rename; `Unsupported` by a store that takes in no stacks; `Corrupt` when the two don't
    /// compare afterwards.
    ///
    /// # Cancellation
    /// A future that is dropped leaves a copy that isn't there yet: make it again.
    pub async fn copy_from(&self, source: &Stack) -> Result<Copied> {
        let name = source.name().clone();
        let object = format!("stack {}", name.short());
        if let Some(there) = self.get(&name).await?
            && there.lineage() != source.lineage()
        {
            return Err(Error::conflict(
                object,
                "another stack has this name in the store that it would go to",
            ));
        }
        let (from, to) = (source.backend(), self.backend());
        let was_there = match to.read_head(source.lineage()).await {
            Ok(_) => true,
            // Without a head it was begun and never finished.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => false,
            Err(error) => return Err(error),
        };
        let whole = if was_there {
            read(from, source.lineage(), None).await?
        } else {
            self.take_in(source).await?
        };
        let there = read(to, source.lineage(), None).await?;
        compare(&object, &whole, &there, was_there)?;
        self.point_to(&name, source.lineage()).await?;
        Ok(Copied {
            name,
            lineage: source.lineage(),
            frames: whole.view.frames.len() as u64,
            objects: whole.objects.len() as u64,
            was_there,
        })
    }

    /// Objects, journal, head.
    async fn take_in(&self, source: &Stack) -> Result<Whole> {
        let whole = read(source.backend(), source.lineage(), Some(self.backend())).await?;
        let head = &whole.view.head;
        if head.removed || head.moving_to.is_some() {
            let reason = "it is being renamed, or was removed: lock it once, then copy it";
            return Err(Error::conflict(
                format!("stack {}", source.name().short()),
                reason,
            ));
        }
        let mut copy = head.clone();
        copy.copied_from = Some(source.backend().url());
        // The other store may keep its journal in another way.
        copy.fold = None;
        copy.nonce = Nonce::random(&*source.environment().entropy);
        let adopted = self
            .backend()
            .adopt_stack(&copy, whole.before, &whole.view.frames)
            .await;
        match adopted {
            // Another copy was quicker: the comparison tells whether it is the same.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.backend()
                    .read_head(source.lineage())
                    .await
                    .map_err(|_| error)?;
            }
            other => other?,
        }
        Ok(whole)
    }

    /// The last step: from here on it is found.
    async fn point_to(&self, name: &StackName, lineage: Lineage) -> Result<()> {
        let known = self.backend().read_name(name).await?;
        if known.as_ref().and_then(NamePointer::lineage) == Some(lineage) {
            return Ok(());
        }
        let pointer = NamePointer {
            name: name.clone(),
            target: NameTarget::Lineage(lineage),
            nonce: Nonce::random(&*self.environment().entropy),
        };
        self.backend()
            .swap_name(name, known.map(|known| known.nonce), &pointer)
            .await
    }
}

/// All of a stack; each object goes on to another store as it is read, if one is given. Objects come after the journal
/// that names them.
async fn read(from: &dyn Backend, lineage: Lineage, to: Option<&dyn Backend>) -> Result<Whole> {
    let view = whole_journal(from, lineage).await?;
    let beginning = Horizon::of(&view.head).beginning(lineage);
    let mut objects = BTreeMap::new();
    for kind in ObjectKind::ALL {
        for name in from.list(lineage, kind).await? {
            let bytes = match from.read(lineage, &name).await {
                // It was collected since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other?,
            };
            objects.insert(name.clone(), Digest::of(&bytes));
            if let Some(to) = to {
                to.adopt_object(lineage, &name, bytes).await?;
            }
        }
    }
    require_bases(&view.head, &objects)?;
    Ok(Whole {
        view,
        before: Tail {
            next: beginning.start,
            chain: beginning.chain,
        },
        objects,
    })
}

/// The snapshots from which replay begins must be among the objects: without them the journal leads nowhere.
fn require_bases(head: &Head, objects: &BTreeMap<ObjectName, Digest>) -> Result<()> {
    let collected = head.collection.as_ref().map(|collection| &collection.base);
    let bases = [Some(&head.base), head.rev_base.as_ref(), collected]
        .into_iter()
        .flatten();
    let named = bases.filter_map(|base| base.snapshot.as_ref());
    let missing = named
        .map(|snapshot| snapshot.object())
        .find(|name| !objects.contains_key(name));
    match missing {
        Some(name) => {
            let object = format!("stack {}: {name}", head.lineage);
            Err(Error::corrupt(object, 0, "the head names it, and it is missing"))
        }
        None => Ok(()),
    }
}

/// The chain covers every byte of the journal. One that was there before may have gone on, here or there.
fn compare(object: &str, source: &Whole, copy: &Whole, was_there: bool) -> Result<()> {
    let differ = |what: &str| {
        if was_there {
            let reason = format!("it is there already, and {what}: the two went different ways");
            return Error::conflict(object, reason);
        }
        Error::corrupt(object, 0, format!("{what} after it was copied"))
    };
    let journal = |whole: &Whole| (whole.before, whole.view.tail, whole.view.head.base.clone());
    if journal(source) != journal(copy) {
        return Err(differ("its journal is another one"));
    }
    let missing = source
        .objects
        .iter()
        .find(|(name, digest)| copy.objects.get(*name) != Some(*digest));
    match missing {
        Some((name, _)) => Err(differ(&format!("{name} is missing or another one"))),
        None => Ok(()),
    }
}

//! Two processes of one client: the other one remembers something else just before this one replaces what it read.

use super::super::known_names::{Shop, kind, shop as shop_name};
use super::*;
use async_trait::async_trait;
use futures_util::future::LocalBoxFuture;
use state_core::{ErrorKind, KeyId, Lineage, StackName};
use state_manager::{KnownStacks, MemoryKnownStacks, StackPin};
use std::sync::atomic::AtomicUsize;

/// What the other process remembers, just before this one writes.
#[derive(Debug)]
struct Overtaken {
    memory: Arc<MemoryKnownStacks>,
    /// The number of pins that this process replaces before the other one writes.
    left: AtomicUsize,
    pin: Option<(Lineage, StackPin)>,
    name: Option<(StackName, Lineage)>,
    /// A stack that the other process creates just before this one reads the known names.
    created: Option<(Stacks, StackName)>,
}

impl Overtaken {
    /// Another process that remembers nothing.
    fn by_nothing(memory: &Arc<MemoryKnownStacks>) -> Self {
        Self {
            memory: Arc::clone(memory),
            left: AtomicUsize::new(0),
            pin: None,
            name: None,
            created: None,
        }
    }
}

#[async_trait]
impl KnownStacks for Overtaken {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        self.memory.seen(lineage).await
    }

    async fn replace(&self, lineage: Lineage, before: Option<&StackPin>, now: Option<&StackPin>) -> bool {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        if let Some((lineage, later)) = &self.pin
            && left == 0
        {
            let seen = self.memory.seen(*lineage).await.unwrap();
            assert!(self.memory.replace(*lineage, seen.as_ref(), Some(later)).await);
        }
        self.memory.replace(lineage, before, now).await
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        self.memory.named(name).await
    }

    async fn names(&self) -> Result<Vec<StackName>> {
        if let Some((stacks, name)) = &self.created
            && stacks.get(name).await.unwrap().is_none()
        {
            stacks.new_stack_with(name, SealingPolicy::All).await.unwrap();
        }
        self.memory.names().await
    }

    async fn replace_name(&self, name: &StackName, before: Option<Lineage>, now: Option<Lineage>) -> bool {
        if let Some((name, later)) = &self.name {
            let seen = self.memory.named(name).await.unwrap();
            assert!(self.memory.replace_name(name, seen, Some(*later)).await);
        }
        self.memory.replace_name(name, before, now).await
    }
}

#[tokio::test]
async fn accepted_stack_does_not_replace_a_later_pin() {
    let client = Shop::open().await;
    let lineage = client.lineage().await;
    let memory = client.client.known_stacks.clone();
    let mut later = memory.seen(lineage).await.unwrap().unwrap();
    later.serial = state_core::Serial(later.serial.get() + 100);
    let overtaken = Overtaken {
        pin: Some((lineage, later.clone())),
        ..Overtaken::by_nothing(&memory)
    };
    let stacks = client.client.stacks().with_known_stacks(Arc::new(overtaken));
    let accepted = stacks.trust(&shop_name(), None).await;
    assert_eq!(kind(accepted.map(drop)), Err(ErrorKind::Conflict));
    assert_eq!(memory.seen(lineage).await.unwrap(), Some(later));
}

#[tokio::test]
async fn name_that_another_process_remembers_stays() {
    let client = Shop::open().await;
    let lineage = client.lineage().await;
    let later = Lineage::from_bits([7; 16]);
    type Read = fn(Stacks) -> LocalBoxFuture<'static, Result<()>>;
    let reads: [Read; 2] = [
        |stacks| Box::pin(async move { stacks.get(&shop_name()).await?.unwrap().tip().await.map(drop) }),
        |stacks| Box::pin(async move { stacks.view(Some(&shop_name())).await.map(drop) }),
    ];
    for (number, read) in reads.into_iter().enumerate() {
        let memory: Arc<MemoryKnownStacks> = Arc::default();
        let overtaken = |name| Overtaken {
            name,
            ..Overtaken::by_nothing(&memory)
        };
        let stacks = |name| {
            client
                .client
                .stacks()
                .with_known_stacks(Arc::new(overtaken(name)))
        };
        let refused = read(stacks(Some((shop_name(), later)))).await;
        // A reader that looks the name up again sees that the other process remembers another stack.
        let is_refused = matches!(kind(refused), Err(ErrorKind::Conflict | ErrorKind::Distrusted));
        assert!(is_refused, "read {number}");
        assert_eq!(memory.named(&shop_name()).await.unwrap(), Some(later));
        // The same stack is no conflict.
        assert!(memory.replace_name(&shop_name(), Some(later), None).await);
        read(stacks(Some((shop_name(), lineage)))).await.unwrap();
        assert_eq!(memory.named(&shop_name()).await.unwrap(), Some(lineage));
    }
}

/// The list of the store is read before the memory, which then knows a stack that the list doesn't have.
#[tokio::test]
async fn stack_created_during_a_list_is_no_alarm() {
    let shop = Shop::open().await;
    let name: StackName = "meanwhile".parse().unwrap();
    for lists_summaries in [true, false] {
        let memory = shop.client.known_stacks.clone();
        let overtaken = Overtaken {
            created: Some((shop.client.stacks(), name.clone())),
            ..Overtaken::by_nothing(&memory)
        };
        let stacks = shop.client.stacks().with_known_stacks(Arc::new(overtaken));
        let listed = match lists_summaries {
            true => {
                let summaries = stacks.list().await.unwrap().into_iter();
                summaries.map(|summary| summary.name).collect()
            }
            false => stacks.names().await.unwrap(),
        };
        assert!(listed.contains(&name), "{listed:?}");
        shop.client.stacks().remove(&name, true).await.unwrap();
    }
}

#[tokio::test]
async fn former_key_never_replaces_the_key_of_a_later_owner() {
    for replaced in 0.. {
        let shop = Shop::open().await;
        let lineage = shop.lineage().await;
        let memory = shop.client.known_stacks.clone();
        let mut later = memory.seen(lineage).await.unwrap().unwrap();
        later.key = KeyId::from_bytes([3; 16]);
        later.epoch = state_core::Epoch(later.epoch.get() + 2);
        let overtaken = Overtaken {
            left: AtomicUsize::new(replaced),
            pin: Some((lineage, later.clone())),
            ..Overtaken::by_nothing(&memory)
        };
        let overtaken = Arc::new(overtaken);
        let stacks = shop.client.stacks().with_known_stacks(overtaken.clone());
        let bob = [generate_identity().recipient().to_owned()];
        let added = async {
            let stack = stacks.get(&shop_name()).await?.unwrap();
            stack.add_recipients("add", &bob).await
        };
        let added = added.await.map(drop);
        // The counter wraps around when the other process has written.
        if overtaken.left.load(Ordering::Relaxed) <= replaced {
            assert!(replaced > 0, "no pin was replaced");
            assert!(added.is_ok(), "{added:?}");
            break;
        }
        let pin = memory.seen(lineage).await.unwrap().unwrap();
        assert_eq!(pin.key, later.key, "before replacement {replaced}: {added:?}");
    }
}

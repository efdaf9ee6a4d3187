//! Several processes of one client share its pins, and a pin never goes back to an earlier position.

use super::*;
use async_trait::async_trait;
use futures_util::FutureExt;
use state_core::StackName;
use state_manager::SealingChange;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The moment at which another process of the client pins a later position.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Before this process reads the pin for the time with this number, from 0 on.
    BeforeRead(usize),
    /// While this process reports a change of recipients.
    Report,
}

/// Pins that another process changes at one moment.
#[derive(Debug)]
struct SharedPins {
    pins: Arc<MemoryKnownStacks>,
    moment: Moment,
    lineage: Lineage,
    /// The pin that the other process writes.
    later: StackPin,
    /// The folder of the store, and the store as the other process leaves it; none if the store stays as it is.
    store: Option<[PathBuf; 2]>,
    /// The number of times that this process read the pin; it counts from [`SharedPins::arm`] on.
    reads: AtomicUsize,
    is_written: AtomicBool,
}

/// The number of reads before the test counts them.
const UNARMED: usize = usize::MAX / 2;

impl SharedPins {
    /// The pins of a client, and what another process of it leaves: a later pin, and a store.
    fn of(
        client: &Client,
        moment: Moment,
        lineage: Lineage,
        later: &StackPin,
        store: Option<[PathBuf; 2]>,
    ) -> Arc<Self> {
        Arc::new(Self {
            pins: client.known_stacks.clone(),
            moment,
            lineage,
            later: later.clone(),
            store,
            reads: AtomicUsize::new(UNARMED),
            is_written: AtomicBool::default(),
        })
    }

    fn arm(&self) {
        self.reads.store(0, Ordering::Relaxed);
    }

    fn write_later(&self) {
        let write = async {
            let before = self.pins.seen(self.lineage).await.unwrap();
            let replaced = self
                .pins
                .replace(self.lineage, before.as_ref(), Some(&self.later));
            assert!(replaced.await);
        };
        write.now_or_never().expect("pins in memory need no waiting");
        if let Some([root, later]) = &self.store {
            // The open store keeps its folders.
            copy(later, root);
        }
        self.is_written.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl KnownStacks for SharedPins {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        if let Moment::BeforeRead(number) = self.moment
            && number == reads
        {
            self.write_later();
        }
        self.pins.seen(lineage).await
    }

    async fn replace(&self, lineage: Lineage, before: Option<&StackPin>, now: Option<&StackPin>) -> bool {
        self.pins.replace(lineage, before, now).await
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        self.pins.named(name).await
    }

    async fn names(&self) -> state_core::Result<Vec<StackName>> {
        self.pins.names().await
    }

    async fn replace_name(&self, name: &StackName, before: Option<Lineage>, now: Option<Lineage>) -> bool {
        self.pins.replace_name(name, before, now).await
    }

    fn report(&self, stack: &StackName, change: &SealingChange) -> bool {
        if let Moment::Report = self.moment {
            self.write_later();
        }
        self.pins.report(stack, change)
    }
}

/// Reads a stack whose recipients changed since the client saw it, while another process of the client pins the next
/// revision. Returns the regression that the read reports.
async fn read_beside_another_process(moment: Moment) -> Option<String> {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.read().await.unwrap();
    let lineage = head_of(&client).await.lineage;
    let colleague = Client::of(&root, &anna);
    let bob = [generate_identity().recipient().to_owned()];
    let stack = colleague.stack().await.unwrap();
    stack.add_recipients("add", &bob).await.unwrap();
    // The slow process reads the store of this time.
    let earlier = folder.path().join("earlier");
    copy(&root, &earlier);
    colleague.deploy("later").await;
    let later = pin_of(&colleague, lineage).await;
    put_in_place(&root, &earlier);
    let pins = SharedPins::of(&client, moment, lineage, &later, None);
    let stacks = client.stacks().with_known_stacks(pins.clone());
    let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    pins.arm();
    let regression = stack.tip().await.unwrap().regression;
    assert!(pins.is_written.load(Ordering::Relaxed));
    assert_eq!(pin_of(&client, lineage).await, later);
    // The next read begins after the later position was pinned.
    assert!(client.read().await.unwrap().is_some());
    regression
}

async fn pin_of(client: &Client, lineage: Lineage) -> StackPin {
    client.known_stacks.seen(lineage).await.unwrap().unwrap()
}

#[tokio::test]
async fn slow_report_of_a_change_replaces_no_later_pin() {
    assert_eq!(read_beside_another_process(Moment::Report).await, None);
}

#[tokio::test]
async fn slow_read_beside_a_faster_one_is_no_rollback() {
    assert_eq!(read_beside_another_process(Moment::BeforeRead(1)).await, None);
}

/// Requires that a client that reads a store after `forge` still accepts the store from before it.
async fn remembers_nothing_of(forge: impl AsyncFn(&Path, Lineage)) {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.read().await.unwrap();
    let lineage = head_of(&client).await.lineage;
    let honest = folder.path().join("honest");
    copy(&root, &honest);
    forge(&root, lineage).await;
    assert_eq!(client.read().await.unwrap(), None);
    put_in_place(&root, &honest);
    assert_eq!(client.read().await.unwrap(), None);
    client.write().await.unwrap();
}

#[tokio::test]
async fn forged_epoch_in_the_head_is_not_remembered() {
    remembers_nothing_of(async |root, lineage| {
        change_head(root, lineage, |head| {
            head.epoch = state_core::Epoch(head.epoch.get() + 5);
        });
    })
    .await;
}

#[tokio::test]
async fn fence_without_a_session_is_not_remembered() {
    // A fence needs no key, so anyone with write access can append one.
    remembers_nothing_of(async |root, lineage| {
        let store = state_backend_fs::FsBackend::open(root).unwrap();
        let nonce = |bits: u8| state_core::Nonce::from_bits([bits; 16]);
        let request = state_core::backend::Acquire {
            holder: state_core::backend::Holder::new("mallory", "host", 1, "forge", None),
            break_epoch: None,
            head_nonce: nonce(1),
            fence_nonce: nonce(2),
        };
        drop(
            state_core::Backend::acquire(&store, lineage, &request)
                .await
                .unwrap(),
        );
    })
    .await;
}

/// On first contact nothing but the pin of another process of the client tells a forged key from the true one.
#[tokio::test]
async fn first_contact_replaces_no_key_of_another_process() {
    let (_folder, root, anna) = made().await;
    let lineage = head_of(&Client::of(&root, &anna)).await.lineage;
    let client = Client::of(&root, &anna);
    let other_key = head_of(&stranger_of(&root, &anna).await).await.key_id.unwrap();
    let later = StackPin::pinned(other_key);
    // The pin is read once before the journal, once for its key, and then to be replaced.
    for read in 1..=2 {
        client.known_stacks.forget(lineage).await.unwrap();
        let pins = SharedPins::of(&client, Moment::BeforeRead(read), lineage, &later, None);
        let stacks = client.stacks().with_known_stacks(pins.clone());
        let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
        pins.arm();
        stack.tip().await.map(drop).unwrap_err();
        assert!(pins.is_written.load(Ordering::Relaxed));
        assert_eq!(pin_of(&client, lineage).await, later);
    }
}

/// A client of another store with the same lineage and another key.
async fn stranger_of(root: &Path, anna: &GeneratedIdentity) -> Client {
    let other = root.with_file_name("other");
    make(&other, 1, strangers_keys(anna)).await;
    Client::of(&other, anna)
}

/// Reads a stack in each way while another process of the client changes it, and pins what it left. `earlier` is the store
/// that the slow reader finds first, `later` the store afterwards. Nothing may be refused or reported as rolled back.
async fn accepts_a_change_during_each_read(client: &Client, lineage: Lineage, earlier: &Path, later: &Path) {
    let before = pin_of(client, lineage).await;
    put_in_place(&client.root, later);
    let faster = Client::new(&client.root, client.keys.clone());
    faster.set_pin(lineage, &before).await;
    faster.read().await.unwrap();
    let now = pin_of(&faster, lineage).await;
    for number in 0..12 {
        for operation in ["get", "tip", "verify", "head"] {
            client.set_pin(lineage, &before).await;
            put_in_place(&client.root, earlier);
            let pins = SharedPins::of(
                client,
                Moment::BeforeRead(number),
                lineage,
                &now,
                Some([client.root.clone(), later.to_owned()]),
            );
            let stacks = client.stacks().with_known_stacks(pins.clone());
            let name = "shop".parse().unwrap();
            if operation == "get" {
                pins.arm();
            }
            let stack = stacks.get(&name).await.unwrap().unwrap();
            if operation != "get" {
                pins.arm();
            }
            match operation {
                "tip" => assert_eq!(stack.tip().await.unwrap().regression, None, "read {number}"),
                "verify" => assert!(
                    stack.verify(true).await.unwrap().report.is_valid(),
                    "read {number}"
                ),
                "head" => drop(stack.recipients().await.unwrap()),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn slow_read_beside_a_rotation_is_no_alarm() {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.read().await.unwrap();
    let lineage = head_of(&client).await.lineage;
    let [earlier, later] = ["earlier", "later"].map(|name| folder.path().join(name));
    copy(&root, &earlier);
    let other = Client::of(&root, &anna).stack().await.unwrap();
    other.rekey("rekey", Rekey::default()).await.unwrap();
    copy(&root, &later);
    accepts_a_change_during_each_read(&client, lineage, &earlier, &later).await;
}

/// A session without a change raises the epoch of the head, which isn't pinned, and closes the journal later.
#[tokio::test]
async fn slow_read_during_an_idle_session_is_no_rollback() {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.read().await.unwrap();
    let lineage = head_of(&client).await.lineage;
    let [earlier, later] = ["earlier", "later"].map(|name| folder.path().join(name));
    let session = Client::of(&root, &anna)
        .stack()
        .await
        .unwrap()
        .lock("gc")
        .await
        .unwrap();
    copy(&root, &earlier);
    session.close().await.unwrap();
    copy(&root, &later);
    accepts_a_change_during_each_read(&client, lineage, &earlier, &later).await;
}

//! Crypters of single values: which data keys they open, and when a stack gets its first key.

use super::*;
use state_core::sealing::{KeyProvider, OpenedOutputs, StackKey, WrappedKey};
use state_core::testkit::fault::{FaultyBackend, Operation};
use state_core::{ErrorKind, KeyId, Lineage, Result};
use state_encrypt::generate_identity;
use state_manager::Rekey;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key provider that counts how many data keys it unwraps.
#[derive(Debug)]
struct CountedKeys {
    keys: Arc<AgeKeys>,
    unwrapped: AtomicUsize,
}

impl CountedKeys {
    fn of(identity: &GeneratedIdentity) -> Arc<Self> {
        Arc::new(Self {
            keys: keys(40, identity),
            unwrapped: AtomicUsize::new(0),
        })
    }

    fn unwrapped(&self) -> usize {
        self.unwrapped.load(Ordering::Relaxed)
    }
}

impl KeyProvider for CountedKeys {
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>> {
        self.keys.generate(lineage)
    }

    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey> {
        self.keys.wrap(key, recipients)
    }

    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>> {
        self.unwrapped.fetch_add(1, Ordering::Relaxed);
        self.keys.unwrap(lineage, id, files)
    }

    fn open_outputs(&self, lineage: Lineage, document: &[u8]) -> Result<OpenedOutputs> {
        self.keys.open_outputs(lineage, document)
    }
}

/// The stack `shop` in a new process with these keys, and the number of lists and reads that it makes.
async fn opened(backend: &MemoryBackend, keys: Arc<dyn KeyProvider>) -> (Stack, impl Fn() -> (usize, usize)) {
    let counted = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = counted.plan();
    let stacks = Stacks::new(Arc::new(counted), environment(50)).with_keys(keys);
    let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    (stack, move || {
        (plan.calls(Operation::List), plan.calls(Operation::Read))
    })
}

/// Seals a value with the key in use.
async fn token(stack: &Stack, value: &str) -> String {
    let crypter = stack.encrypter("test").await.unwrap();
    crypter.encrypt("db", value.as_bytes()).unwrap()
}

#[tokio::test]
async fn only_the_data_key_that_a_value_names_is_unwrapped() {
    let backend = MemoryBackend::default();
    let identity = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &identity));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let mut tokens = vec![token(&stack, "0").await];
    for number in 1..=3 {
        stack.rekey("rekey", Rekey::default()).await.unwrap();
        tokens.push(token(&stack, &number.to_string()).await);
    }

    let counted = CountedKeys::of(&identity);
    let (stack, requests) = opened(&backend, counted.clone()).await;
    let sealing = stack.encrypter("test").await.unwrap();
    assert_eq!(counted.unwrapped(), 1, "only the key in use seals values");
    assert_eq!(sealing.decrypt("db", &tokens[3]).unwrap(), b"3");
    let (lists, reads) = requests();
    stack.encrypter("test").await.unwrap();
    let (lists_of_opening, reads_of_opening) = (requests().0 - lists, requests().1 - reads);

    let (lists, reads) = requests();
    let crypter = stack.crypter().await.unwrap();
    let made = (
        requests().0 - lists - lists_of_opening,
        requests().1 - reads - reads_of_opening,
    );
    assert_eq!(made, (1, 3), "one list, and one file of each earlier key");
    assert_eq!(counted.unwrapped(), 1);
    crypter.encrypt("db", b"new").unwrap();
    assert_eq!(crypter.decrypt("db", &tokens[3]).unwrap(), b"3");
    assert_eq!(counted.unwrapped(), 1, "neither of the two needs an earlier key");
    for (number, unwrapped) in [(1, 2), (1, 2), (0, 3), (1, 3), (3, 3)] {
        let opened = crypter.decrypt("db", &tokens[number]).unwrap();
        assert_eq!(opened, number.to_string().as_bytes());
        assert_eq!(counted.unwrapped(), unwrapped);
    }
    // A key that is open already is neither read nor unwrapped again.
    let (lists, reads) = requests();
    let again = stack.crypter().await.unwrap();
    let made = (
        requests().0 - lists - lists_of_opening,
        requests().1 - reads - reads_of_opening,
    );
    assert_eq!(made, (1, 1), "one list, and the file of the key that isn't open");
    again.decrypt("db", &tokens[0]).unwrap();
    assert_eq!(counted.unwrapped(), 3);
    let moved = again.decrypt("web", &tokens[0]).unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Sealed);
}

#[tokio::test]
async fn earlier_key_that_cannot_be_opened_gives_its_reason() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let earlier = token(&stack, "earlier").await;
    let both = Rekey {
        recipients: Some(vec![anna.recipient().to_owned(), bob.recipient().to_owned()]),
        ..Rekey::default()
    };
    stack.rekey("recipients", both).await.unwrap();
    let present = token(&stack, "present").await;

    let (stack, _) = opened(&backend, keys(2, &bob)).await;
    let crypter = stack.crypter().await.unwrap();
    assert_eq!(crypter.decrypt("db", &present).unwrap(), b"present");
    let refused = crypter.decrypt("db", &earlier).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Sealed);
    let digits = earlier.split(':').nth(1).unwrap();
    for part in [
        "secret `db`",
        digits,
        "was replaced",
        "the given identity is not a recipient",
    ] {
        assert!(refused.to_string().contains(part), "{part} is missing: {refused}");
    }
}

#[tokio::test]
async fn only_encryption_gives_a_stack_its_first_data_key() {
    let backend = MemoryBackend::default();
    let identity = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &identity));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    assert_eq!(stack.crypter().await.unwrap_err().kind(), ErrorKind::Sealed);
    assert!(stack.recipients().await.unwrap().of_stack.is_empty());
    let sealed = token(&stack, "first").await;
    assert_eq!(stack.recipients().await.unwrap().of_stack, [identity.recipient()]);
    assert!(stack.lock_holder().await.unwrap().is_none());
    let crypter = stack.crypter().await.unwrap();
    assert_eq!(crypter.decrypt("db", &sealed).unwrap(), b"first");

    let open = stacks
        .new_stack_with(&"open".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    let epoch = open.lock_status().await.unwrap().epoch;
    let refused = open.encrypter("test").await.unwrap_err();
    assert!(
        refused.to_string().contains("encrypt the stack first"),
        "{refused}"
    );
    assert_eq!(
        open.lock_status().await.unwrap().epoch,
        epoch,
        "no lock was taken"
    );
}

//! Tests of configuring providers: once per configuration, without blocking other providers, and only while the session
//! holds the lock.

use super::{CallError, CallTarget, Caller, Preparations};
use crate::approval::CommandApprovals;
use crate::event::Event;
use crate::interrupt::Interrupt;
use crate::log::Logger;
use crate::provider::{
    ConfigureRequest, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider,
    ReadRequest, ReadResult, UpdateRequest,
};
use crate::registry::Registry;
use async_trait::async_trait;
use state_core::sensitive::SecretStrings;
use state_core::target::{Target, TargetProvider};
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{EntryKey, Json, Lineage, MemoryBackend, Properties, StackName};
use state_manager::{Actor, Environment, Session, Stacks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A provider that counts its calls of `configure`, which can be slow or fail. Its other calls do nothing.
#[derive(Debug, Default)]
struct ConfigureProbe {
    times: AtomicUsize,
    /// The notification that `configure` waits for. If `None`, the call ends at once.
    until: Option<Arc<Notify>>,
    fails: bool,
}

#[async_trait]
impl Provider for ConfigureProbe {
    async fn configure(&self, _request: ConfigureRequest) -> Result<(), Failure> {
        self.times.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        if let Some(until) = &self.until {
            until.notified().await;
        }
        match self.fails {
            true => Err(Failure::unknown("no credentials")),
            false => Ok(()),
        }
    }

    async fn diff(&self, _request: DiffRequest) -> Result<Diff, Failure> {
        Ok(Diff::none())
    }

    async fn create(&self, _request: CreateRequest) -> Result<Object, Failure> {
        Err(Failure::not_done("never"))
    }

    async fn read(&self, _request: ReadRequest) -> Result<ReadResult, Failure> {
        Ok(ReadResult::Missing)
    }

    async fn update(&self, _request: UpdateRequest) -> Result<Object, Failure> {
        Err(Failure::not_done("never"))
    }

    async fn delete(&self, _request: DeleteRequest) -> Result<(), Failure> {
        Ok(())
    }
}

/// A target provider of stacks without keys.
#[derive(Debug)]
struct Keyless;

#[async_trait]
impl TargetProvider for Keyless {
    async fn target(&self, name: &StackName) -> Result<Target, state_core::Error> {
        Ok(Target::new(name.clone(), Lineage::from_bits([1; 16]), None, None))
    }
}

fn caller(registry: Registry, lock: Option<Session>) -> Caller {
    let clock = Arc::new(ManualClock::default());
    Caller {
        registry,
        approvals: CommandApprovals::default(),
        interrupt: Interrupt::new(),
        clock: clock.clone(),
        logger: Logger::new(clock, Arc::new(|_: &Event| {}), None),
        timeout: None,
        planning: false,
        stack: "shop/production".parse().unwrap(),
        targets: Arc::new(Keyless),
        lock,
        preparations: Preparations::default(),
        answers: Arc::default(),
    }
}

/// Calls `check` of the provider of a kind. The [`Caller`] configures the provider before its first `check`.
async fn check(caller: &Caller, kind: &str) -> Result<(), CallError> {
    let target = CallTarget {
        key: EntryKey::live("a".parse().unwrap()),
        kind: kind.to_owned(),
        timeout: None,
        secrets: SecretStrings::default(),
        dependency_changed: false,
    };
    let checked = caller
        .check(&target, Properties::empty(), BTreeSet::new(), None)
        .await;
    checked.map(|_| ())
}

#[tokio::test]
async fn slow_configure_does_not_block_other_providers() {
    let ready = Arc::new(Notify::new());
    let slow = ConfigureProbe {
        until: Some(Arc::clone(&ready)),
        ..ConfigureProbe::default()
    };
    let mut registry = Registry::new();
    registry.register("slow", Arc::new(slow));
    registry.register("fast", Arc::new(ConfigureProbe::default()));
    let caller = caller(registry, None);
    let fast = async {
        tokio::task::yield_now().await;
        check(&caller, "fast").await.unwrap();
        ready.notify_one();
    };
    let both = async { tokio::join!(check(&caller, "slow"), fast) };
    let (slow, ()) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    slow.unwrap();
}

#[tokio::test]
async fn provider_is_configured_once_per_configuration() {
    for fails in [false, true] {
        let provider = Arc::new(ConfigureProbe {
            fails,
            ..ConfigureProbe::default()
        });
        let mut registry = Registry::new();
        registry.register("a", provider.clone());
        registry.register("b", provider.clone());
        let other = Properties::new(Json::parse(r#"{"region":"x"}"#).unwrap()).unwrap();
        registry.register_with("c", provider.clone(), other);
        let caller = caller(registry, None);
        let ended = tokio::join!(
            check(&caller, "a"),
            check(&caller, "b"),
            check(&caller, "c"),
            check(&caller, "a")
        );
        assert_eq!(provider.times.load(Ordering::SeqCst), 2);
        for ended in [ended.0, ended.1, ended.2, ended.3] {
            match ended {
                Ok(()) => assert!(!fails),
                Err(CallError::Failed(Failure::NotDone(reasons))) => {
                    assert!(fails && reasons == ["no credentials"]);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn no_provider_is_configured_after_the_lock_is_lost() {
    let environment = Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(1)),
        actor: Actor::default(),
        writer_version: "0".into(),
    };
    let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment);
    let name = "shop/production".parse().unwrap();
    let stack = stacks
        .new_stack_with(&name, state_core::head::SealingPolicy::Plaintext)
        .await
        .unwrap();
    let session = stack.lock("test").await.unwrap();
    let provider = Arc::new(ConfigureProbe::default());
    let mut registry = Registry::new();
    registry.register("a", provider.clone());
    let status = stack.lock_status().await.unwrap();
    stack.force_unlock(status.epoch).await.ok();
    let caller = caller(registry, Some(session));
    let ended = check(&caller, "a").await;
    assert!(matches!(ended, Err(CallError::LockLost(_))), "{ended:?}");
    assert_eq!(provider.times.load(Ordering::SeqCst), 0);
}

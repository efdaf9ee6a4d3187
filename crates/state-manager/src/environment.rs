//! Everything that this crate takes from its process: time, randomness, and the identity of the actor.

use async_trait::async_trait;
use state_core::backend::Holder;
use state_core::{Clock, Entropy, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clock, randomness and identity, injected so that tests control them.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The clock for timestamps, pauses and time limits.
    pub clock: Arc<dyn Clock>,
    /// The source of random bits for ids and nonces.
    pub entropy: Arc<dyn Entropy>,
    /// The identity that locks and the history show.
    pub actor: Actor,
    /// The version of the program that writes, as history shows it.
    pub writer_version: String,
}

impl Environment {
    /// The system's clock and randomness, with this actor.
    pub fn system(actor: Actor) -> Self {
        Self {
            clock: Arc::new(SystemClock::start()),
            entropy: Arc::new(SystemEntropy),
            actor,
            writer_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    pub(crate) fn holder(&self, operation: &str) -> Holder {
        let Actor { who, host, pid } = &self.actor;
        Holder::new(who, host, *pid, operation, Some(self.clock.now()))
    }
}

/// The identity that locks and history show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// The person or service that acts.
    pub who: String,
    /// The name of the host on which the process runs.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
}

impl Actor {
    /// The actor of this process on a host: the user name from the environment, else the user id. `variable` looks up
    /// an environment variable.
    ///
    /// ```
    /// use state_manager::Actor;
    ///
    /// let actor = Actor::of_process("build-7", 1000, |name| std::env::var(name).ok());
    /// assert_eq!(actor.host, "build-7");
    /// assert_eq!(Actor::of_process("build-7", 1000, |_| None).who, "uid-1000");
    /// ```
    pub fn of_process(
        host: impl Into<String>,
        user_id: u32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let named = ["USER", "LOGNAME"].into_iter().filter_map(variable);
        let mut named = named.filter(|name| !name.is_empty());
        Self {
            who: named.next().unwrap_or_else(|| format!("uid-{user_id}")),
            host: host.into(),
            pid: std::process::id(),
        }
    }
}

#[derive(Debug)]
struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the system's time is injected"
    )]
    fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the system's time is injected"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::new(jiff::Timestamp::now().to_string())
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sleeps on tokio's timer: the runtime must have it enabled.
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[derive(Debug)]
struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the system's randomness is injected"
    )]
    #[expect(
        clippy::expect_used,
        reason = "no id and no nonce can be made without the system's randomness"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system provides random bytes");
    }
}

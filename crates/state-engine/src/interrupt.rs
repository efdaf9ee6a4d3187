//! Stops a run: at the first request after the steps in flight, at the second request at once.

use tokio::sync::watch;

/// A handle that asks a run to stop. All clones belong to the same run.
///
/// After the first request no new steps begin; steps in flight end, and their results are recorded. At the second
/// request the engine drops the provider calls in flight, and their operations stay recorded as pending.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requests: watch::Sender<u8>,
}

const STOP: u8 = 1;
const LEAVE: u8 = 2;

impl Interrupt {
    /// Creates a handle without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one request to stop.
    pub fn request(&self) {
        self.requests
            .send_modify(|requests| *requests = requests.saturating_add(1));
    }

    /// Whether a stop was requested, so that no new step may begin.
    pub fn is_stopping(&self) -> bool {
        *self.requests.borrow() >= STOP
    }

    /// Whether a second stop was requested, so that the provider calls in flight are dropped.
    pub fn is_leaving(&self) -> bool {
        *self.requests.borrow() >= LEAVE
    }

    /// Resolves at the first request.
    ///
    /// # Cancellation
    /// This method is cancel safe.
    pub async fn stopping(&self) {
        self.reached(STOP).await;
    }

    /// Resolves at the second request.
    ///
    /// # Cancellation
    /// This method is cancel safe.
    pub async fn leaving(&self) {
        self.reached(LEAVE).await;
    }

    async fn reached(&self, level: u8) {
        // `self` holds a sender, so the channel can't close while this waits.
        let mut requests = self.requests.subscribe();
        drop(requests.wait_for(|requests| *requests >= level).await);
    }
}

//! How a run is asked to stop: gently, then at once.

use tokio::sync::watch;

/// Asks a run to stop. Clones ask the same run.
///
/// The first request stops new steps; those in flight end and are committed. The second leaves them: their calls are
/// dropped, and their pending operations stay on record.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requests: watch::Sender<u8>,
}

const STOP: u8 = 1;
const LEAVE: u8 = 2;

impl Interrupt {
    /// Nobody asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks once more.
    pub fn request(&self) {
        self.requests
            .send_modify(|requests| *requests = requests.saturating_add(1));
    }

    /// Whether new steps are to be begun no more.
    pub fn is_stopping(&self) -> bool {
        *self.requests.borrow() >= STOP
    }

    /// Whether what is in flight is to be left.
    pub fn is_leaving(&self) -> bool {
        *self.requests.borrow() >= LEAVE
    }

    /// Resolves at the first request.
    ///
    /// # Cancellation
    /// Nothing is lost when it is dropped.
    pub async fn stopping(&self) {
        self.reached(STOP).await;
    }

    /// Resolves at the second request.
    ///
    /// # Cancellation
    /// Nothing is lost when it is dropped.
    pub async fn leaving(&self) {
        self.reached(LEAVE).await;
    }

    async fn reached(&self, level: u8) {
        // We hold a sender, so it can't end before.
        let mut requests = self.requests.subscribe();
        drop(requests.wait_for(|requests| *requests >= level).await);
    }
}

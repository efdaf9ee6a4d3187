//! Credentials from the metadata service of a cloud machine, if none are configured. On other machines the service
//! doesn't exist, or its address never answers; this module turns both into one clear error.

use crate::clock::BootClock;
use async_trait::async_trait;
use futures_util::future::{Either, select};
use object_store::{CredentialProvider, Error, Result};
use state_core::Clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit of the metadata service, which runs next to the machine.
const LIMIT: Duration = Duration::from_secs(5);

/// The metadata service, and the advice for machines without one.
pub(super) struct MachineCredentials<C> {
    service: Arc<dyn CredentialProvider<Credential = C>>,
    object: String,
    advice: &'static str,
    /// Whether the service ever answered. Then a later failure is temporary and may be retried.
    answered: AtomicBool,
}

impl<C> MachineCredentials<C> {
    pub(super) fn new(
        service: &Arc<dyn CredentialProvider<Credential = C>>,
        object: &str,
        advice: &'static str,
    ) -> Self {
        Self {
            service: Arc::clone(service),
            object: object.to_owned(),
            advice,
            answered: AtomicBool::new(false),
        }
    }
}

/// Shows none of the credentials.
impl<C> fmt::Debug for MachineCredentials<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

#[async_trait]
impl<C: Send + Sync> CredentialProvider for MachineCredentials<C> {
    type Credential = C;

    async fn get_credential(&self) -> Result<Arc<C>> {
        let source = match select(self.service.get_credential(), BootClock.sleep(LIMIT)).await {
            Either::Left((Ok(credential), _)) => {
                self.answered.store(true, Ordering::Relaxed);
                return Ok(credential);
            }
            Either::Left((Err(error), _)) if self.answered.load(Ordering::Relaxed) => return Err(error),
            Either::Left((Err(error), _)) => error.to_string(),
            Either::Right(((), _)) => format!("no answer within {LIMIT:?}"),
        };
        let source = format!(
            "no credentials: {}, or run on a machine with credentials from its cloud: {source}",
            self.advice
        );
        if self.answered.load(Ordering::Relaxed) {
            return Err(Error::Generic {
                store: "the machine's credentials",
                source: source.into(),
            });
        }
        Err(Error::Unauthenticated {
            path: self.object.clone(),
            source: source.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// A service that answers at most once, and then never again.
    #[derive(Debug)]
    struct Silent(AtomicBool);

    #[async_trait]
    impl CredentialProvider for Silent {
        type Credential = ();

        async fn get_credential(&self) -> Result<Arc<()>> {
            match self.0.swap(false, Ordering::Relaxed) {
                true => Ok(Arc::new(())),
                false => pending().await,
            }
        }
    }

    fn machine(answers: bool) -> MachineCredentials<()> {
        let service: Arc<dyn CredentialProvider<Credential = ()>> =
            Arc::new(Silent(AtomicBool::new(answers)));
        MachineCredentials::new(&service, "s3://bucket", "set THIS")
    }

    #[tokio::test(start_paused = true)]
    async fn silent_service_is_refused_with_advice() {
        let begun = tokio::time::Instant::now();
        let refused = machine(false).get_credential().await.unwrap_err();
        assert!(matches!(refused, Error::Unauthenticated { .. }), "{refused:?}");
        assert!(
            refused.to_string().contains("no credentials: set THIS"),
            "{refused}"
        );
        assert!(begun.elapsed() <= LIMIT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn service_that_answered_once_is_retried() {
        let machine = machine(true);
        machine.get_credential().await.unwrap();
        let silent = machine.get_credential().await.unwrap_err();
        assert!(matches!(silent, Error::Generic { .. }), "{silent:?}");
    }
}

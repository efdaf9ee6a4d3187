//! Credentials that nobody gave: then a service is asked that clouds give their machines. Elsewhere it isn't there, or
//! something else stands at its address and never answers.

use crate::clock::BootClock;
use async_trait::async_trait;
use futures_util::future::{Either, select};
use object_store::{CredentialProvider, Error, Result};
use state_core::Clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long that service may take. It is next to the machine.
const LIMIT: Duration = Duration::from_secs(5);

/// The service, and what to say when it has nothing.
pub(super) struct Machine<C> {
    service: Arc<dyn CredentialProvider<Credential = C>>,
    object: String,
    advice: &'static str,
    /// Whether it ever answered: then its silence passes, and is no refusal.
    answered: AtomicBool,
}

impl<C> Machine<C> {
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

/// None of its credentials.
impl<C> fmt::Debug for Machine<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

#[async_trait]
impl<C: Send + Sync> CredentialProvider for Machine<C> {
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
            "no credentials: {}, or run it where the machine is given some: {source}",
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

    /// A service that answers so often, and then never.
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

    fn machine(answers: bool) -> Machine<()> {
        let service: Arc<dyn CredentialProvider<Credential = ()>> =
            Arc::new(Silent(AtomicBool::new(answers)));
        Machine::new(&service, "s3://bucket", "set THIS")
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_never_answers_is_a_refusal_in_time_that_says_what_to_set() {
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
    async fn one_that_answered_before_may_answer_again() {
        let machine = machine(true);
        machine.get_credential().await.unwrap();
        let silent = machine.get_credential().await.unwrap_err();
        assert!(matches!(silent, Error::Generic { .. }), "{silent:?}");
    }
}

//! The rest of seed 001 over the stacks of a store: crypters, deployments in and out, logout.

use crate::intent::UpdateRequest;
use crate::keys;
use crate::session::Session;
use crate::stacks::Stacks;
use state_core::crypter::CrypterProvider;
use state_core::{Crypter, Error, Relation, Result, RevisionId, Snapshot, SnapshotMeta, StackName};
use state_core::{ErrorKind, UntypedDeployment};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Stacks {
    /// The same, with what gives each stack its crypter.
    #[must_use]
    pub fn with_crypters(mut self, provider: Arc<dyn CrypterProvider>) -> Self {
        self.crypters = Some(provider);
        self
    }

    /// What seals and opens a stack's secrets: from the provider that was given, else with the stack's own data key.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Sealed` when it has no data key, or no identity at hand opens it.
    pub async fn crypter(&self, name: &StackName) -> Result<Arc<dyn Crypter>> {
        let stack = self.require(name).await?;
        match &self.crypters {
            Some(provider) => provider.crypter(stack.name(), stack.lineage()),
            None => keys::crypter(&stack).await,
        }
    }

    /// A stack's state as a versioned document: entries, outputs, and what is pending.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack.
    pub async fn export_deployment(&self, name: &StackName) -> Result<UntypedDeployment> {
        let view = self.require(name).await?.tip().await?;
        UntypedDeployment::of(&view.snapshot())
    }

    /// Replaces a stack's state by an exported one, as a new revision.
    ///
    /// One that was exported from this stack, and edited or not, fits as long as nothing was committed since.
    /// Everything else needs `request.forced`: an older one, one of another lineage or of none, and one with pending
    /// operations that the stack doesn't know, for they would be forgotten.
    ///
    /// # Errors
    /// `NotFound`; `Locked`; `Conflict` when it doesn't fit; `Format` and `Malformed` when it can't be read;
    /// `Integrity` with all violations. Then nothing was written.
    pub async fn import_deployment(
        &self,
        name: &StackName,
        deployment: &UntypedDeployment,
        request: UpdateRequest,
    ) -> Result<RevisionId> {
        let snapshot = deployment.snapshot()?;
        let stack = self.require(name).await?;
        let session = stack.lock("import").await?;
        let imported = import(&session, snapshot, request).await;
        let closed = session.close().await;
        let revision = imported?;
        closed.map(|()| revision)
    }

    /// Forgets the credentials that the store keeps for its user. Files keep none.
    ///
    /// # Errors
    /// What the store says.
    pub async fn logout(&self) -> Result<()> {
        match self.backend().extensions().credentials {
            Some(store) => store.logout().await,
            None => Ok(()),
        }
    }
}

async fn import(session: &Session, snapshot: Snapshot, request: UpdateRequest) -> Result<RevisionId> {
    if !request.forced {
        check(session, &snapshot).await?;
    }
    session.import(request, snapshot, None).await
}

/// Whether a deployment fits the stack as it is now.
async fn check(session: &Session, snapshot: &Snapshot) -> Result<()> {
    let stack = session.stack();
    let conflict = |reason: String| Err(Error::conflict(format!("stack {}", stack.name().short()), reason));
    let known: BTreeSet<_> = session.state().pending().map(|operation| operation.id).collect();
    let strange = snapshot
        .pending_operations
        .iter()
        .filter(|operation| !known.contains(&operation.id))
        .count();
    if strange > 0 {
        return conflict(format!(
            "the deployment has {strange} pending operation(s) that the stack doesn't know: settle them where it comes from"
        ));
    }
    let current = match stack.snapshot_meta().await {
        Err(error) if error.kind() == ErrorKind::NoCurrent => return Ok(()),
        other => other?,
    };
    let given = SnapshotMeta {
        lineage: snapshot
            .lineage
            .map_or_else(String::new, |lineage| lineage.to_string()),
        serial: snapshot.serial.map_or(0, |serial| serial.get()),
        version: String::new(),
    };
    match given.relation_to(&current) {
        Relation::Newer | Relation::Equal => Ok(()),
        Relation::Older => conflict(format!(
            "the deployment has serial {}, the stack is at serial {}",
            given.serial, current.serial
        )),
        Relation::Unrelated => {
            conflict("the deployment is of another lineage, or of none: the two are unrelated".to_owned())
        }
    }
}

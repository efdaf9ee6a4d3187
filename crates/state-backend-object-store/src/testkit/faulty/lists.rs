//! Lists with injected faults.

use super::{FaultyStore, StoreFault, answered, failed};
use futures_util::future::pending;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};

/// How many of the last writes a stale list omits.
const STALE: usize = 3;

/// Objects that a list omits.
type Hidden = Vec<Path>;

impl FaultyStore {
    /// Counts a list; returns what it omits.
    async fn next_list(&self) -> Result<Hidden> {
        match self.next(|counts| counts.lists += 1).await {
            Some(StoreFault::StaleList) => {
                let written = &self.plan().written;
                Ok(written[written.len().saturating_sub(STALE)..].to_vec())
            }
            Some(StoreFault::Silent | StoreFault::SilentAfter) => pending().await,
            None | Some(StoreFault::Twice | StoreFault::Truncated | StoreFault::StaleRead) => {
                Ok(Hidden::new())
            }
            Some(StoreFault::Status(status) | StoreFault::StatusAfter(status)) => {
                Err(answered(status, &Path::default()))
            }
            Some(_) => Err(failed("503 Slow Down")),
        }
    }

    pub(super) fn listed(
        &self,
        list: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let this = self.clone();
        let listing = async move {
            let listed = match this.next_list().await {
                Ok(hidden) => visible(list, &hidden).await,
                Err(error) => Err(error),
            };
            match listed {
                // The order of a list isn't guaranteed, so reverse it.
                Ok(all) => stream::iter(all.into_iter().rev().map(Ok)).boxed(),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        stream::once(listing).flatten().boxed()
    }

    pub(super) async fn listed_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let hidden = self.next_list().await?;
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects.retain(|meta| !hidden.contains(&meta.location));
        let mut prefixes = Vec::new();
        for prefix in listed.common_prefixes {
            // A folder is visible as long as one of its objects is.
            if !visible(self.inner.list(Some(&prefix)), &hidden).await?.is_empty() {
                prefixes.push(prefix);
            }
        }
        listed.common_prefixes = prefixes;
        Ok(listed)
    }
}

/// Returns the listed objects that aren't hidden.
async fn visible(list: BoxStream<'static, Result<ObjectMeta>>, hidden: &[Path]) -> Result<Vec<ObjectMeta>> {
    let mut all: Vec<ObjectMeta> = list.try_collect().await?;
    all.retain(|meta| !hidden.contains(&meta.location));
    Ok(all)
}

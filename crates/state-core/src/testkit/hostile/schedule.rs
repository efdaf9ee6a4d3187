//! Selection of the interventions that a test tries: each forgery before each request that can detect it, or random
//! pairs.
//!
//! ```
//! use state_core::testkit::hostile::forgeries::{Loot, catalogue};
//! use state_core::testkit::hostile::schedule::singles;
//! use state_core::testkit::hostile::{Request, Verb};
//! use state_core::Lineage;
//! use std::sync::Arc;
//!
//! let lineage = Lineage::from_bits([1; 16]);
//! let loot = Loot { lineage, author: "anna".into(), recipient: "age1…".into(), other: None, other_name: None, earlier: vec![], former: None, wrapped: None, outputs: vec![] };
//! let catalogue = catalogue(&Arc::new(loot));
//! // The requests of a command, as `Attacker::requests` lists them after a run without interventions.
//! let requests = [Request { verb: Verb::Read, object: format!("stacks/{lineage}/head.json") }];
//! let tried = singles(&requests, &catalogue);
//! assert!(tried.iter().all(|(at, forgery)| *at == 0 && !catalogue[*forgery].name.is_empty()));
//! assert!(tried.len() > 40);
//! ```

use super::{CatalogueEntry, Intervention, Request, StoredKind, Verb, forgeries};
use crate::Entropy;
use crate::testkit::clock::SeededEntropy;
use std::sync::Arc;

/// Returns every single intervention that a run with these requests can detect: the number of a request, and the index
/// of a forgery in the catalogue.
///
/// Between two requests for an object or its folder, it makes no difference when the attacker edits the object. Edits
/// right before the requests for the object therefore cover every moment of the run.
pub fn singles(requests: &[Request], catalogue: &[CatalogueEntry]) -> Vec<(usize, usize)> {
    let mut singles = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        if !is_noticed(request) {
            continue;
        }
        let kind = StoredKind::of(&request.object);
        let of_kind = catalogue
            .iter()
            .enumerate()
            .filter(|(_, entry)| Some(entry.kind) == kind);
        singles.extend(of_kind.map(|(forgery, _)| (at, forgery)));
    }
    singles
}

/// Whether the result of a request can depend on the content of its object. Only that of a sync can't.
fn is_noticed(request: &Request) -> bool {
    request.verb != Verb::Sync
}

/// Returns two random interventions for a run with about these requests: each is the number of a request, and the
/// `choice` for [`forgeries::choose`]. The same seed gives the same pair.
pub fn pair(seed: u64, requests: &[Request]) -> Vec<(usize, u64)> {
    let entropy = SeededEntropy::new(seed);
    let draw = || {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    };
    let noticed: Vec<usize> = (0..requests.len())
        .filter(|at| is_noticed(&requests[*at]) && StoredKind::of(&requests[*at].object).is_some())
        .collect();
    let one = || {
        let at = draw().checked_rem(noticed.len() as u64)?;
        Some((*noticed.get(usize::try_from(at).ok()?)?, draw()))
    };
    [one(), one()].into_iter().flatten().collect()
}

/// Returns the interventions of a [`pair`], for [`Attacker::plan`](super::Attacker::plan).
pub fn plan(pair: &[(usize, u64)], catalogue: &Arc<Vec<CatalogueEntry>>) -> Vec<Intervention> {
    let intervention = |(at, choice): &(usize, u64)| {
        Intervention::on_request(*at, forgeries::any_of(Arc::clone(catalogue), *choice))
    };
    pair.iter().map(intervention).collect()
}

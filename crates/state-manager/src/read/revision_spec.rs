//! Revision specifications as people type them: an id, the beginning of an id, a serial, `@` for the current revision,
//! `@-` for the update before it.
//!
//! ```
//! use state_manager::{RevisionSpec, Stack, UnresolvedRevision};
//!
//! async fn previous(stack: &Stack) -> Result<(), Box<dyn std::error::Error>> {
//!     let spec: RevisionSpec = "@-".parse()?;
//!     match stack.resolve(&spec).await? {
//!         Ok(id) => println!("the revision before is {id}"),
//!         Err(UnresolvedRevision::Collected { begins, .. }) => println!("history begins at {begins}"),
//!         Err(error) => println!("{error}"),
//!     }
//!     Ok(())
//! }
//! ```

use crate::context::StackContext;
use crate::objects::document::{Revision, RevisionKind};
use crate::read::history::Revisions;
use crate::read::tip::Tip;
use state_core::{Error, RevisionId, Serial};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A revision specification. Any text can be parsed as one; [`View::resolve`](crate::View::resolve) finds the revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RevisionSpec(String);

impl FromStr for RevisionSpec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RevisionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RevisionSpec {
    /// The revision with this id.
    pub fn of(id: &RevisionId) -> Self {
        Self(id.to_string())
    }

    /// The update before the current revision: `@-`.
    pub fn previous() -> Self {
        Self("@-".to_owned())
    }

    /// Number of updates before the current revision, for `@`, `@-`, `@--` and so on.
    fn back(&self) -> Option<usize> {
        let back = self.0.strip_prefix('@')?;
        back.chars().all(|c| c == '-').then_some(back.len())
    }

    /// The serial and, if given, the beginning of the rest of the id.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.0.split_once('-') {
            Some((serial, rest)) => (serial, Some(rest)),
            None => (&self.0, None),
        }
    }

    /// The serial of all revisions that can match; none if the specification names no serial.
    fn serial(&self) -> Option<Serial> {
        self.parts().0.parse().ok().map(Serial)
    }

    /// Whether the specification matches the revision with this id.
    pub(crate) fn fits(&self, id: &RevisionId) -> bool {
        let (serial, rest) = self.parts();
        id.serial().to_string() == serial && rest.is_none_or(|rest| id.short().starts_with(rest))
    }

    /// For a specification without a match: whether it may refer to a revision before this serial.
    fn is_before(&self, begins: Serial) -> bool {
        match self.back() {
            Some(back) => back > 0,
            None => self.serial().is_some_and(|serial| serial < begins),
        }
    }
}

/// The reason why a [`RevisionSpec`] can't be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnresolvedRevision {
    /// No revision matches the specification.
    #[error("no revision `{spec}`")]
    Missing {
        /// The specification that was resolved.
        spec: RevisionSpec,
    },
    /// The revision was deleted by a collection.
    #[error("revision `{spec}` was collected: history begins at serial {begins}")]
    Collected {
        /// The specification that was resolved.
        spec: RevisionSpec,
        /// The serial at which the history begins.
        begins: Serial,
    },
    /// Several revisions match the specification.
    #[error("revision `{spec}` is ambiguous: it matches {}", joined(.candidates))]
    Ambiguous {
        /// The specification that was resolved.
        spec: RevisionSpec,
        /// The revisions that match the specification.
        candidates: Vec<RevisionId>,
    },
}

impl UnresolvedRevision {
    /// The specification that was resolved.
    pub const fn spec(&self) -> &RevisionSpec {
        match self {
            Self::Missing { spec } | Self::Collected { spec, .. } | Self::Ambiguous { spec, .. } => spec,
        }
    }
}

/// The ids, joined with "or".
fn joined(candidates: &[RevisionId]) -> String {
    let ids: Vec<_> = candidates.iter().map(ToString::to_string).collect();
    ids.join(" or ")
}

/// Finds the revision that a specification matches. Reads the history from the newest revision that can match, until the
/// remaining ones can't match.
pub(super) async fn resolve(
    stack: &StackContext,
    tip: &Tip,
    spec: &RevisionSpec,
) -> state_core::Result<Result<RevisionId, UnresolvedRevision>> {
    let mut search = Search::new(spec);
    let mut revisions = Revisions::of(stack, tip);
    if let Some(serial) = spec.serial() {
        revisions = revisions.up_to(serial);
    }
    let mut damaged = None;
    while !search.is_decided {
        match revisions.next_readable().await {
            Ok(Some(revision)) => search.add(revision),
            Ok(None) => break,
            // The wanted revision may be an older one. `@-` counts the revisions, and can't skip any.
            Err(error @ Error::Corrupt { .. }) if spec.serial().is_some() => {
                damaged.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match damaged.filter(|_| search.found.is_empty()) {
        Some(error) => Err(error),
        None => Ok(search.end(tip.floor.collected_before)),
    }
}

/// The search for a specification in a history that is passed revision by revision, newest first.
struct Search<'s> {
    spec: &'s RevisionSpec,
    /// Number of updates between the current revision and the wanted one; none if the specification names a serial.
    back: Option<usize>,
    /// The revisions that match the specification, newest first.
    found: Vec<RevisionId>,
    /// Whether the current revision was passed.
    is_past_current: bool,
    /// Whether no further revision can match.
    is_decided: bool,
}

impl<'s> Search<'s> {
    fn new(spec: &'s RevisionSpec) -> Self {
        let back = spec.back();
        Self {
            spec,
            back,
            found: Vec::new(),
            is_past_current: false,
            is_decided: back.is_none() && spec.serial().is_none(),
        }
    }

    fn add(&mut self, revision: Revision) {
        let Some(back) = &mut self.back else {
            if self.spec.fits(&revision.id) {
                self.found.push(revision.id);
            } else {
                // The serials of the following revisions aren't higher.
                let serial = revision.id.serial();
                self.is_decided = self.spec.serial().is_some_and(|wanted| serial < wanted);
            }
            return;
        };
        self.is_past_current |= revision.current;
        if !self.is_past_current || !matches!(revision.kind, RevisionKind::Update(_)) {
            return;
        }
        match back.checked_sub(1) {
            Some(less) => *back = less,
            None => {
                self.found.push(revision.id);
                self.is_decided = true;
            }
        }
    }

    /// Returns the revision that was found, or the reason why not exactly one was. `begins` is the first serial of the history after the last collection, if there was one.
    fn end(self, begins: Option<Serial>) -> Result<RevisionId, UnresolvedRevision> {
        let spec = self.spec.clone();
        match (&*self.found, begins.filter(|begins| spec.is_before(*begins))) {
            ([one], _) => Ok(one.clone()),
            ([], Some(begins)) => Err(UnresolvedRevision::Collected { spec, begins }),
            ([], None) => Err(UnresolvedRevision::Missing { spec }),
            _ => Err(UnresolvedRevision::Ambiguous {
                spec,
                candidates: self.found,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RevisionSpec, Search, UnresolvedRevision};
    use crate::objects::document::{Revision, RevisionKind};
    use state_core::{RevisionId, Serial, Slot, Timestamp, UpdateId, UpdateInfo, UpdateKind};

    /// A revision with this id: a detached one if `stored`, else an update.
    fn revision(id: &str, stored: bool, current: bool) -> Revision {
        let update = UpdateInfo::new(UpdateId::from_bits([1; 16]), UpdateKind::Edit, Timestamp::new(""));
        Revision {
            id: id.parse().unwrap(),
            kind: if stored {
                RevisionKind::Detached
            } else {
                RevisionKind::Update(Box::new(update))
            },
            entries: 0,
            current,
            slot: Slot::ZERO,
        }
    }

    fn history() -> Vec<Revision> {
        vec![
            revision("12-aa00000000000000", true, false),
            revision("11-ab00000000000000", false, true),
            revision("2-cd00000000000000", true, false),
            revision("1-ef00000000000000", false, false),
        ]
    }

    /// Searches a history for a specification. Also returns the number of revisions that the search passed.
    fn search(
        history: Vec<Revision>,
        wanted: &str,
        begins: Option<Serial>,
    ) -> (Result<RevisionId, UnresolvedRevision>, usize) {
        let spec: RevisionSpec = wanted.parse().unwrap();
        let mut search = Search::new(&spec);
        let mut passed = 0;
        for revision in history {
            if search.is_decided {
                break;
            }
            passed += 1;
            search.add(revision);
        }
        (search.end(begins), passed)
    }

    /// The id of the matching revision, or none.
    fn resolved(wanted: &str) -> Option<String> {
        match search(history(), wanted, None).0 {
            Ok(id) => Some(RevisionId::to_string(&id)),
            Err(UnresolvedRevision::Missing { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn ids_prefixes_and_serials_name_one_revision() {
        for wanted in ["1-ef00000000000000", "1-e", "1-", "1"] {
            assert_eq!(
                resolved(wanted).as_deref(),
                Some("1-ef00000000000000"),
                "{wanted}"
            );
        }
        assert_eq!(resolved("3"), None);
        assert_eq!(resolved("1-f"), None);
        assert_eq!(resolved(""), None);
    }

    #[test]
    fn at_sign_and_dashes_count_updates_back_from_current() {
        assert_eq!(resolved("@").as_deref(), Some("11-ab00000000000000"));
        assert_eq!(resolved("@-").as_deref(), Some("1-ef00000000000000"));
        assert_eq!(resolved("@--"), None);
        assert_eq!(resolved("@x"), None);
    }

    #[test]
    fn ambiguous_revision_is_refused() {
        let mut history = history();
        history.push(revision("1-ee00000000000000", true, false));
        let refused = search(history, "1-e", None).0.unwrap_err();
        assert!(
            matches!(refused, UnresolvedRevision::Ambiguous { .. }),
            "{refused}"
        );
    }

    #[test]
    fn search_ends_when_no_further_revision_can_match() {
        for (wanted, passed) in [("@", 2), ("@-", 4), ("12", 2), ("11-a", 3), ("x", 0), ("@x", 0)] {
            assert_eq!(search(history(), wanted, None).1, passed, "{wanted}");
        }
    }

    #[test]
    fn revision_before_the_history_is_reported_as_collected() {
        let mut history = history();
        history.truncate(2);
        for (wanted, collected) in [
            ("1", true),
            ("1-ef00000000000000", true),
            ("10-", true),
            ("@-", true),
            ("13", false),
            ("x", false),
            ("@x", false),
        ] {
            let error = search(history.clone(), wanted, Some(Serial(11))).0.unwrap_err();
            let is_collected = matches!(error, UnresolvedRevision::Collected { .. });
            assert!(is_collected || matches!(error, UnresolvedRevision::Missing { .. }));
            assert_eq!(is_collected, collected, "{wanted}");
            assert_eq!(error.to_string().contains("was collected"), collected, "{wanted}");
        }
    }
}

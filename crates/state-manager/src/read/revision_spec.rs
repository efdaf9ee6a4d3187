//! Revision specifications as people type them: an id, the beginning of an id, a serial, `@` for the current revision,
//! `@-` for the update before it.
//!
//! ```
//! use state_manager::{RevisionSpec, Stack, UnresolvedRevision};
//!
//! async fn previous(stack: &Stack) -> Result<(), Box<dyn std::error::Error>> {
//!     let list = stack.revision_list().await?;
//!     let spec: RevisionSpec = "@-".parse()?;
//!     match list.resolve(&spec) {
//!         Ok(id) => println!("the revision before is {id}"),
//!         Err(UnresolvedRevision::Collected { begins, .. }) => println!("history begins at {begins}"),
//!         Err(error) => println!("{error}"),
//!     }
//!     Ok(())
//! }
//! ```

use crate::objects::document::{Revision, RevisionKind};
use state_core::{RevisionId, Serial};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A revision specification. Any text can be parsed as one; [`RevisionList::resolve`] finds the revision.
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

    /// Whether the specification matches the revision with this id.
    fn fits(&self, id: &RevisionId) -> bool {
        let (serial, rest) = self.parts();
        id.serial().to_string() == serial && rest.is_none_or(|rest| id.short().starts_with(rest))
    }

    /// For a specification without a match: whether it may refer to a revision before this serial.
    fn is_before(&self, begins: Serial) -> bool {
        match self.back() {
            Some(back) => back > 0,
            None => self.parts().0.parse().is_ok_and(|serial| Serial(serial) < begins),
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

/// The revisions of a stack, for resolving specifications.
#[derive(Clone, Debug)]
pub struct RevisionList {
    /// The revisions, newest first.
    revisions: Vec<Revision>,
    /// The first serial of the history after the last collection; none if nothing was collected.
    begins: Option<Serial>,
}

impl RevisionList {
    /// A list of revisions, newest first, and the first serial of the history after the last collection, if there was
    /// one.
    pub(crate) const fn new(revisions: Vec<Revision>, begins: Option<Serial>) -> Self {
        Self { revisions, begins }
    }

    /// The revision that a specification matches.
    ///
    /// # Errors
    /// When no revision or several revisions match.
    pub fn resolve(&self, spec: &RevisionSpec) -> Result<RevisionId, UnresolvedRevision> {
        let found: Vec<&Revision> = match spec.back() {
            Some(back) => self.relative(back).into_iter().collect(),
            None => self
                .revisions
                .iter()
                .filter(|revision| spec.fits(&revision.id))
                .collect(),
        };
        match &*found {
            [one] => Ok(one.id.clone()),
            [] => Err(self.missing(spec)),
            several => Err(UnresolvedRevision::Ambiguous {
                spec: spec.clone(),
                candidates: several.iter().map(|revision| revision.id.clone()).collect(),
            }),
        }
    }

    /// The update before the current revision; none when the current one is the first.
    ///
    /// # Errors
    /// When the previous update was collected.
    pub fn previous(&self) -> Result<Option<RevisionId>, UnresolvedRevision> {
        match self.relative(1) {
            Some(revision) => Ok(Some(revision.id.clone())),
            None if self.begins.is_some() => Err(self.missing(&RevisionSpec("@-".to_owned()))),
            None => Ok(None),
        }
    }

    /// The current revision for 0, or the update that many steps before it.
    fn relative(&self, back: usize) -> Option<&Revision> {
        self.revisions
            .iter()
            .skip_while(|revision| !revision.current)
            .filter(|revision| matches!(revision.kind, RevisionKind::Update(_)))
            .nth(back)
    }

    /// The error for a specification without a match.
    fn missing(&self, spec: &RevisionSpec) -> UnresolvedRevision {
        let spec = spec.clone();
        match self.begins.filter(|begins| spec.is_before(*begins)) {
            Some(begins) => UnresolvedRevision::Collected { spec, begins },
            None => UnresolvedRevision::Missing { spec },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RevisionList, RevisionSpec, UnresolvedRevision};
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

    fn history() -> RevisionList {
        let revisions = vec![
            revision("12-aa00000000000000", true, false),
            revision("11-ab00000000000000", false, true),
            revision("2-cd00000000000000", true, false),
            revision("1-ef00000000000000", false, false),
        ];
        RevisionList::new(revisions, None)
    }

    fn spec(text: &str) -> RevisionSpec {
        text.parse().unwrap()
    }

    /// The id of the matching revision, or none.
    fn resolved(wanted: &str) -> Option<String> {
        match history().resolve(&spec(wanted)) {
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
        history
            .revisions
            .push(revision("1-ee00000000000000", true, false));
        let refused = history.resolve(&spec("1-e")).unwrap_err();
        assert!(
            matches!(refused, UnresolvedRevision::Ambiguous { .. }),
            "{refused}"
        );
    }

    #[test]
    fn revision_before_the_history_is_reported_as_collected() {
        let mut history = history();
        history.revisions.truncate(2);
        history.begins = Some(Serial(11));
        for (wanted, collected) in [
            ("1", true),
            ("1-ef00000000000000", true),
            ("10-", true),
            ("@-", true),
            ("13", false),
            ("x", false),
            ("@x", false),
        ] {
            let error = history.resolve(&spec(wanted)).unwrap_err();
            let is_collected = matches!(error, UnresolvedRevision::Collected { .. });
            assert!(is_collected || matches!(error, UnresolvedRevision::Missing { .. }));
            assert_eq!(is_collected, collected, "{wanted}");
            assert_eq!(error.to_string().contains("was collected"), collected, "{wanted}");
        }
        assert!(history.previous().is_err());
        history.begins = None;
        assert_eq!(history.previous().unwrap(), None);
    }
}

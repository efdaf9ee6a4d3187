//! The document around a deployment: its form, its version, and the features that it needs.

use super::facts::{StateFacts, not_exportable};
use crate::error::{Error, Result};
use crate::fields::{TopLevel, optional, printable, required};
use state_core::json::{Document, Kind, View};
use state_core::{Entry, Snapshot};

/// The versions of documents that this build reads.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=4;
/// The first version whose documents declare the features that they need.
pub(super) const FEATURES_SINCE: u64 = 4;
/// The oldest version whose resources have the same fields as in version 4.
const SAME_SINCE: u64 = 3;
/// The features of version 4 that this build supports.
const KNOWN: [&str; 8] = [
    "refreshBeforeUpdate",
    "views",
    "hooks",
    "taint",
    "replaceWith",
    "snippets-prototype",
    "extensionParameterization",
    "byteString",
];

/// Whether a document is a Pulumi state.
pub(super) fn is_pulumi(root: &TopLevel<'_>) -> bool {
    let has = |key| root.get(key).is_some();
    let is_bare = has("latest") && (has("stack") || has("target")) && !has("version");
    has("checkpoint") || has("deployment") || is_bare
}

/// The position of a deployment in its document.
pub(super) struct Envelope<'a> {
    /// Version of the document; None for a bare checkpoint, which has no outer object with a version.
    pub(super) version: Option<u64>,
    pub(super) features: Vec<String>,
    /// The checkpoint that contains the deployment, if any.
    pub(super) checkpoint: Option<View<'a>>,
    /// The deployment; None for a stack that was never updated.
    pub(super) deployment: Option<View<'a>>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a document.
    pub(super) fn of(document: &Document<'a>) -> Result<Self> {
        let root = document.root();
        object(document, root, "a Pulumi state")?;
        let (checkpoint, deployment) = (root.get("checkpoint"), root.get("deployment"));
        if let (Some(_), Some(deployment)) = (checkpoint, deployment) {
            let message = "a Pulumi state must not have both a `checkpoint` and a `deployment`";
            return Err(Error::at(document, &deployment, message));
        }
        let features = features(document)?;
        if checkpoint.is_none() && deployment.is_none() {
            if root.get("version").is_some() || (root.get("stack").is_none() && root.get("latest").is_none())
            {
                let message = "a Pulumi state must have a `checkpoint` or a `deployment`";
                return Err(Error::at(document, &root, message));
            }
            return Ok(Self {
                version: None,
                features,
                checkpoint: Some(root),
                deployment: optional(document, root, "latest", Kind::Object)?,
            });
        }
        let version = Some(version(document)?);
        if let Some(deployment) = deployment {
            object(document, deployment, "`deployment`")?;
        } else if let Some(checkpoint) = checkpoint {
            object(document, checkpoint, "`checkpoint`")?;
        }
        let inside = match checkpoint {
            Some(checkpoint) => optional(document, checkpoint, "latest", Kind::Object)?,
            None => deployment,
        };
        Ok(Self {
            version,
            features,
            checkpoint,
            deployment: inside,
        })
    }
}

/// Checks that a value is an object; `what` names the value in the error.
pub(super) fn object<'a>(document: &Document<'a>, view: View<'a>, what: &str) -> Result<()> {
    if view.kind() == Kind::Object {
        return Ok(());
    }
    let message = format!("{what} must be an object, found {}", view.kind());
    Err(Error::at(document, &view, message))
}

fn version(document: &Document<'_>) -> Result<u64> {
    let view = required(document, document.root(), "a Pulumi state", "version")?;
    let Some(version) = view.as_u64() else {
        let message = "`version` must be a positive whole number, written in digits alone";
        return Err(Error::at(document, &view, message));
    };
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    Err(Error::Unreadable {
        what: format!(
            "it is a Pulumi state of version {version}; this build reads versions {} to {}, and the bare form without a version",
            VERSIONS.start(),
            VERSIONS.end()
        ),
    })
}

fn features(document: &Document<'_>) -> Result<Vec<String>> {
    let list = optional(document, document.root(), "features", Kind::Array)?;
    let mut features = Vec::new();
    let mut unknown = Vec::new();
    for element in list.and_then(|list| list.elements()).into_iter().flatten() {
        let Some(name) = element.as_str() else {
            let message = format!("a feature must be a string, found {}", element.kind());
            return Err(Error::at(document, &element, message));
        };
        if !KNOWN.contains(&&*name) {
            unknown.push(format!("`{}`", printable(&name)));
        }
        features.push(name.into_owned());
    }
    if unknown.is_empty() {
        return Ok(features);
    }
    Err(Error::Unreadable {
        what: format!(
            "it needs Pulumi features that this build doesn't support: {}",
            unknown.join(", ")
        ),
    })
}

/// The features that a snapshot uses, sorted. Only the features that an edit of the snapshot can introduce are checked.
fn used(snapshot: &Snapshot) -> Vec<String> {
    let any = |uses: fn(&Entry) -> bool| {
        let pending = snapshot
            .pending_operations
            .iter()
            .filter_map(|operation| operation.entry.as_ref());
        snapshot.entries.iter().chain(pending).any(|entry| uses(entry))
    };
    let mut used = Vec::new();
    if any(|entry| !entry.replace_with.is_empty()) {
        used.push("replaceWith".to_owned());
    }
    if any(|entry| entry.tainted) {
        used.push("taint".to_owned());
    }
    used
}

/// The features that a state uses without declaring them.
pub(super) fn undeclared(snapshot: &Snapshot, facts: &StateFacts) -> Vec<String> {
    let mut used = used(snapshot);
    used.retain(|feature| !facts.features.contains(feature));
    used
}

/// Version and additional features that an export declares.
pub(super) struct Declarations {
    /// Version of the document; None for a bare checkpoint, which has no outer object with a version.
    pub(super) version: Option<u64>,
    /// Features to declare in addition to the original ones.
    pub(super) more: Vec<String>,
}

/// The version and the additional features that a snapshot needs.
pub(super) fn declared(snapshot: &Snapshot, facts: &StateFacts) -> Result<Declarations> {
    let mut more = undeclared(snapshot, facts);
    more.retain(|feature| !facts.undeclared.contains(feature));
    let version = facts.version;
    if more.is_empty() {
        return Ok(Declarations { version, more });
    }
    match version {
        Some(version) if version >= SAME_SINCE => Ok(Declarations {
            version: Some(FEATURES_SINCE),
            more,
        }),
        _ => Err(not_exportable(
            "the snapshot",
            format!(
                "it uses {}, which a state of version {} can't declare: import and export it with Pulumi first",
                more.join(", "),
                version.unwrap_or(0)
            ),
        )),
    }
}

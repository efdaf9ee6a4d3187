//! The document around a deployment: which of the forms it has, its version, the features that it needs.

use super::facts::{StateFacts, not_exportable};
use crate::error::{Error, Result};
use crate::fields::{optional, printable, required};
use state_core::json::{Document, Kind, View};
use state_core::{Entry, Snapshot};

/// The versions that are read.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=4;
/// The version that says which features it needs.
pub(super) const FEATURES_SINCE: u64 = 4;
/// The oldest version whose resources say what those of version 4 say.
const SAME_SINCE: u64 = 3;
/// The features that this build knows.
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

/// Whether a document is Pulumi's.
pub(super) fn is_pulumi(root: &View<'_>) -> bool {
    let has = |key| root.get(key).is_some();
    let is_bare = has("latest") && (has("stack") || has("target")) && !has("version");
    has("checkpoint") || has("deployment") || is_bare
}

/// Where a deployment stands in its document.
pub(super) struct Envelope<'a> {
    /// None: the bare form.
    pub(super) version: Option<u64>,
    pub(super) features: Vec<String>,
    /// The checkpoint, if there is one around the deployment.
    pub(super) checkpoint: Option<View<'a>>,
    /// None for a stack that was never updated.
    pub(super) deployment: Option<View<'a>>,
}

impl<'a> Envelope<'a> {
    /// Takes a document apart.
    pub(super) fn of(document: &Document<'a>) -> Result<Self> {
        let root = document.root();
        object(document, root, "a Pulumi state")?;
        let (checkpoint, deployment) = (root.get("checkpoint"), root.get("deployment"));
        if let (Some(_), Some(deployment)) = (checkpoint, deployment) {
            let message = "a document has a `checkpoint` or a `deployment`, not both";
            return Err(Error::at(document, &deployment, message));
        }
        let features = features(document)?;
        if checkpoint.is_none() && deployment.is_none() {
            if root.get("version").is_some() || (root.get("stack").is_none() && root.get("latest").is_none())
            {
                let message = "a Pulumi state has a `checkpoint` or a `deployment`; there is neither";
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

/// That a value is an object.
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
            "it is a Pulumi state of version {version}; this build reads versions {} to {}, and 0 without a number",
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
            let message = format!("a feature is a string, found {}", element.kind());
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
            "it needs features of Pulumi that this build doesn't know: {}",
            unknown.join(", ")
        ),
    })
}

/// The features that a snapshot uses, of those that can come about here; sorted.
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

/// The features that a state uses without saying so.
pub(super) fn undeclared(snapshot: &Snapshot, facts: &StateFacts) -> Vec<String> {
    let mut used = used(snapshot);
    used.retain(|feature| !facts.features.contains(feature));
    used
}

/// What a snapshot's document says of itself.
pub(super) struct Declarations {
    /// None: the bare form.
    pub(super) version: Option<u64>,
    /// Features to be declared beside those that were.
    pub(super) more: Vec<String>,
}

/// The version and the features that a snapshot needs now.
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
                "it uses {}, which a state of version {} can't say: let Pulumi import and export it once",
                more.join(", "),
                version.unwrap_or(0)
            ),
        )),
    }
}

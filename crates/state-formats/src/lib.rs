//! Foreign states in and out without loss: Terraform and OpenTofu state files, Pulumi checkpoints and deployments,
//! unobin snapshots.
//!
//! [`import`] turns the bytes of a foreign state into a [`Snapshot`] in topological order; [`export`] turns a snapshot
//! that came from such a state back into its bytes. What the model has no field for rides in the `extensions` of the
//! snapshot and its entries under the system's name, so that nothing is lost: a state that nobody changed is exported
//! byte for byte as it came in (unobin's in the layout that unobin writes); after a change it is written as the system
//! itself writes it. States of Terraform's versions 1 to 3 come in and go out as version 4; what OpenTofu encrypted has to be
//! opened first, and goes out plain.
//!
//! What is malformed is refused with line, column and path. What is well formed and breaks rules of integrity is refused
//! with all of them, and [`import_broken`] reads it for a [repair](state_core::repair).
//!
//! | function | does |
//! |---|---|
//! | [`detect`] | says by content which format some bytes have, or why they have none |
//! | [`describe`] | what a document of a format says of itself, for people |
//! | [`import`] | bytes to snapshot, every refusal with line, column and path |
//! | [`export`] | snapshot to bytes, deterministic |
//! | [`open_encrypted`] | what OpenTofu encrypted with a passphrase, as plain text (feature `opentofu-encryption`) |
//! | [`check_import`] | Terraform's rules of what may replace what: lineage and serial |
//!
//! # Secrets
//! A Terraform state is plain text. Attributes become [`Entry::outputs`](state_core::Entry::outputs) and are sealed by
//! their [`sensitive_outputs`](state_core::Entry::sensitive_outputs); but `/private`, `/instance` and `/resource` of an
//! entry's extension, and of the snapshot's `/original` (the state as it was written, kept only when it isn't laid out
//! as Terraform lays it out, and a digest of what we write) and the fields that Terraform doesn't know, may hold secrets in
//! places that nobody declared. Whoever seals a snapshot seals what [`OPAQUE_IN_ENTRY`] and [`OPAQUE_IN_SNAPSHOT`] name.
//!
//! A Pulumi state holds its secrets in envelopes, mostly encrypted by a provider of its own. They stay as they are, and
//! their paths are sensitive. With the feature `pulumi-secrets`, `open_secrets` opens those of a passphrase: from then on
//! they are sensitive values like any other, and go out as they came in until they change. [`PULUMI_OPAQUE_IN_ENTRY`]
//! and [`PULUMI_OPAQUE_IN_SNAPSHOT`] name the rest.

mod compression;
mod error;
mod format;
mod imported;
mod opentofu;
mod pulumi;
mod terraform;
mod unobin;
mod verdict;

pub use compression::{Packing, unpack};
pub use error::{Error, Result};
pub use format::{Format, describe, detect};
pub use imported::{ForeignMeta, Imported};
pub use opentofu::open_encrypted;
pub use pulumi::{
    OPAQUE_IN_ENTRY as PULUMI_OPAQUE_IN_ENTRY, OPAQUE_IN_SNAPSHOT as PULUMI_OPAQUE_IN_SNAPSHOT,
};
#[cfg(feature = "pulumi-secrets")]
pub use pulumi::{OpenedSecrets, open_secrets};
pub use verdict::{ImportVerdict, Refusal, check_import};

use state_core::{Clock, Snapshot, codec};
use terraform::Integrity;

/// The key of Terraform's part in `extensions` and `foreign_serials`.
pub const TERRAFORM: &str = "terraform";

/// The key of Pulumi's part in `extensions` and `foreign_serials`.
pub const PULUMI: &str = "pulumi";

/// The key of unobin's part in `extensions` and `foreign_serials`.
pub const UNOBIN: &str = "unobin";

/// JSON pointers, within an entry's `extensions["terraform"]`, to text that may hold undeclared secrets.
pub const OPAQUE_IN_ENTRY: [&str; 3] = ["/private", "/instance", "/resource"];

/// JSON pointers, within a snapshot's `extensions["terraform"]`, to text that may hold undeclared secrets, or tells
/// something of them, as a digest does.
pub const OPAQUE_IN_SNAPSHOT: [&str; 4] = ["/original", "/check-results", "/rest", "/unknown"];

/// Reads a foreign state.
///
/// The snapshot of a Terraform state has no lineage, serial and stack name of ours: whoever stores it gives them, and
/// sets its foreign serial with [`ForeignSerial::after_import`](state_core::snapshot::ForeignSerial::after_import).
/// Its entries stand in topological order. So it is with unobin's, whose references may lead nowhere: nothing is
/// verified here. A native snapshot comes as it is, not verified either. A Pulumi state keeps its own order, right or
/// wrong, and is not verified. What is packed is [unpacked](unpack) first, once, whatever its format.
///
/// # Errors
/// [`Error::Core`] with a malformed document (line, column, path) or a cycle (its members), and the refusals of
/// [`detect`].
pub fn import(bytes: &[u8], format: Format, clock: &dyn Clock) -> Result<Imported> {
    import_owned(bytes.to_vec(), format, clock)
}

/// As [`import`], in less memory: of a Terraform state, text and entries are never whole beside each other.
///
/// # Errors
/// As [`import`].
pub fn import_owned(bytes: Vec<u8>, format: Format, clock: &dyn Clock) -> Result<Imported> {
    let bytes = unpack(bytes)?;
    match format {
        Format::Native => native(&bytes, codec::decode),
        Format::Terraform => terraform::import(bytes, Integrity::Kept, clock),
        Format::Pulumi => pulumi::import(bytes, clock),
        Format::Unobin => unobin::import(&bytes),
    }
}

/// [`import`] of a state that is to be [repaired](state_core::repair): entries may have one key, or depend on each
/// other in a circle.
///
/// # Errors
/// As [`import`].
pub fn import_broken(bytes: &[u8], format: Format, clock: &dyn Clock) -> Result<Imported> {
    let bytes = unpack(bytes.to_vec())?;
    match format {
        Format::Native => native(&bytes, codec::decode_broken),
        Format::Terraform => terraform::import(bytes, Integrity::Broken, clock),
        Format::Pulumi => pulumi::import_broken(bytes, clock),
        Format::Unobin => unobin::import_broken(&bytes),
    }
}

fn native(bytes: &[u8], decode: fn(&str, &[u8]) -> state_core::Result<Snapshot>) -> Result<Imported> {
    if bytes.is_empty() {
        return Err(Error::NoState);
    }
    Ok(Imported {
        snapshot: decode("snapshot", bytes)?,
        foreign: None,
        notes: Vec::new(),
    })
}

/// Writes a snapshot as a foreign state: the same snapshot, the same bytes.
///
/// # Errors
/// [`Error::NotExportable`] when the snapshot never was a state of that system, was one of another, or an entry of it
/// lacks what the format needs.
pub fn export(snapshot: &Snapshot, format: Format) -> Result<Vec<u8>> {
    refuse_crossing(snapshot, format)?;
    match format {
        Format::Native => Ok(codec::encode_pretty(snapshot).into_bytes()),
        Format::Terraform => terraform::export(snapshot).map(String::into_bytes),
        Format::Pulumi => pulumi::export(snapshot).map(String::into_bytes),
        Format::Unobin => unobin::export(snapshot).map(String::into_bytes),
    }
}

/// How many values of a snapshot are secrets that their own system encrypted.
pub fn encrypted_secrets(snapshot: &Snapshot) -> usize {
    pulumi::encrypted_secrets(snapshot)
}

/// A state of one system isn't written as one of another: most of it would have no meaning there.
fn refuse_crossing(snapshot: &Snapshot, format: Format) -> Result<()> {
    let is_of = |system| snapshot.extensions.contains_key(system);
    let reason = match format {
        Format::Pulumi if is_of(TERRAFORM) && !is_of(PULUMI) => {
            "it is a Terraform state, whose resources have no URNs, no providers among them and no inputs: \
             `pulumi import --from terraform` reads it, and `native` holds all of it"
        }
        Format::Terraform | Format::Unobin if is_of(PULUMI) && !is_of(format.name()) => {
            "it is a Pulumi state, whose components, providers, inputs and secrets mean nothing there: `native` holds \
             all of it"
        }
        _ => return Ok(()),
    };
    Err(Error::NotExportable {
        object: "the snapshot".to_owned(),
        format,
        reason: reason.to_owned(),
    })
}

//! Foreign states in and out without loss: Terraform and OpenTofu state files, Pulumi checkpoints and deployments,
//! unobin snapshots.
//!
//! [`Formats`] is the table of formats, [`StateFormat`] what each of them does. [`Formats::import`] turns the bytes of a
//! foreign state into a [`Snapshot`](state_core::Snapshot) in topological order; [`Formats::export`] turns a snapshot
//! that came from such a state back into its bytes. What the model has no field for is kept in the `extensions` of the
//! snapshot and its entries under the format's name, so that nothing is lost: a state that nobody changed is exported
//! byte for byte as it came in (unobin's in the layout that unobin writes); after a change it is written as the system
//! itself writes it. States of Terraform's versions 1 to 3 come in and go out as version 4; a state that OpenTofu
//! encrypted has to be [decrypted](Formats::decrypt) first, and goes out plain.
//!
//! A malformed state is refused with line, column and path. A state that is well formed and breaks rules of integrity is
//! refused with all broken rules, and read for a [repair](state_core::repair) with [`ReadOptions::broken`].
//!
//! ```
//! use state_formats::{Formats, ReadOptions};
//! # #[derive(Debug)]
//! # struct Clock;
//! # impl state_core::Clock for Clock {
//! #     fn now(&self) -> state_core::Timestamp { state_core::Timestamp::new("2026-05-30T12:00:00Z") }
//! #     fn elapsed(&self) -> std::time::Duration { std::time::Duration::ZERO }
//! # }
//! # let file = br#"{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {}, "resources": []}"#;
//! let formats = Formats::standard();
//! let detected = formats.detect(file)?;
//! assert_eq!(detected.format.name(), "terraform");
//! let imported = formats.import(file, detected.format, &ReadOptions::new(&Clock))?;
//! assert_eq!(formats.origin(&imported.snapshot).name(), "terraform");
//! assert_eq!(formats.export(&imported.snapshot, detected.format)?, file);
//! # Ok::<(), state_formats::Error>(())
//! ```
//!
//! # A format of your own
//! Implement [`StateFormat`] for a type and add it: `Formats::standard().with(Mine)`. A format of this crate is a module
//! with such a type, and one line in [`Formats::standard`].
//!
//! # Secrets
//! A Terraform state is plain text. Attributes become [`Entry::outputs`](state_core::Entry::outputs) and are sealed by
//! their [`sensitive_outputs`](state_core::Entry::sensitive_outputs); but parts of the extensions (the provider's private
//! bytes, fields that Terraform doesn't know, the original text) may hold secrets in places that nobody declared. A
//! program that seals snapshots seals what [`Formats::opaque`] lists.
//!
//! A Pulumi state holds its secrets in envelopes, mostly encrypted by a provider of its own. They stay as they are, and
//! their paths are sensitive. With the feature `pulumi-secrets`, [`StateFormat::open_secrets`] opens those of a
//! passphrase.

mod compression;
mod error;
mod extension;
mod fields;
mod format;
mod formats;
mod layout;
mod native;
mod pulumi;
mod terraform;
mod unobin;
mod verdict;

pub use compression::{Packing, unpack};
pub use error::{Error, Result};
pub use format::{
    Confidence, Content, Decrypted, Description, Detection, ForeignMeta, Identity, Imported, OpenedSecrets,
    PassphraseSource, ReadOptions, StateFormat,
};
pub use formats::{Detected, Formats};
pub use native::Native;
pub use pulumi::Pulumi;
pub use terraform::Terraform;
pub use unobin::Unobin;
pub use verdict::{ImportVerdict, Refusal};

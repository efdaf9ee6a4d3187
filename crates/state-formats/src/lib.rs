//! Imports and exports the states of other systems without loss: Terraform and OpenTofu state files, Pulumi checkpoints
//! and deployments, unobin snapshots.
//!
//! [`Formats`] is the table of formats; each format implements [`StateFormat`]. [`Formats::import`] reads the bytes of
//! a foreign state into a [`Snapshot`](state_core::Snapshot); [`Formats::export`] writes an imported snapshot in its
//! original format. Data for which the model has no field is kept in the `extensions` of the snapshot and its entries,
//! under the name of the format. An unchanged state is exported byte for byte as it was imported; only a unobin
//! snapshot with another layout than unobin's is exported in unobin's layout. A changed state is written as its own
//! system writes states. Terraform and unobin states are sorted topologically on import; Pulumi states keep their
//! order. Terraform states of versions 1 to 3 are upgraded to version 4 on import. A state that OpenTofu encrypted has
//! to be [decrypted](Formats::decrypt) first, and is exported unencrypted.
//!
//! A malformed state is refused with line, column and path. A well-formed Terraform state that violates integrity rules
//! is refused with all violations; snapshots of other formats must be verified by the caller (see
//! [`StateFormat::checks_integrity`]). With [`ReadOptions::broken`], a state with violations is read, so that the
//! caller can [repair](state_core::repair) it.
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
//! let (detected, imported) = formats.import_detected(file, &ReadOptions::new(&Clock))?;
//! assert_eq!(detected.format.name(), "terraform");
//! assert_eq!(formats.origin(&imported.snapshot).name(), "terraform");
//! assert_eq!(formats.export(&imported.snapshot, detected.format)?, file);
//! # Ok::<(), state_formats::Error>(())
//! ```
//!
//! # A format of your own
//! Implement [`StateFormat`] for a type and register it: `Formats::standard().with(MyFormat)`. To add a format to this
//! crate, write a module with such a type and add one line to [`Formats::standard`].
//!
//! # Secrets
//! A Terraform state is plain text. Attributes become [`Entry::outputs`](state_core::Entry::outputs); the sensitive
//! ones are marked in [`sensitive_outputs`](state_core::Entry::sensitive_outputs), and a program that seals snapshots
//! seals them. Some parts of the extensions (the provider's private bytes, fields that Terraform doesn't know, the
//! original text) may contain secrets that no sensitive path marks. [`Formats::opaque`] lists these parts; a program
//! that seals snapshots must seal them too.
//!
//! The system of a state marks few of its secrets. [`mark_secrets`] marks more: attributes that are known to contain
//! secrets, and copies of marked values. An export omits these marks.
//!
//! A Pulumi state holds its secrets in envelopes, usually encrypted by a secrets provider of Pulumi. An import keeps
//! the envelopes and marks their paths as sensitive. With the feature `pulumi-secrets`, [`StateFormat::open_secrets`]
//! decrypts secrets of the passphrase provider.

mod compression;
mod edits;
mod error;
mod extension;
mod fields;
mod format;
mod formats;
mod layout;
mod lookalike;
mod native;
mod ordered;
mod pulumi;
mod secrets;
mod state_file;
mod terraform;
mod unobin;
mod verdict;

pub use compression::{Compression, decompress};
pub use edits::{Action, EditProblem, EditReview, Effect, EntryChange, StateEdit};
pub use error::{Error, Result};
pub use format::{
    Confidence, Content, Decrypted, Description, Detection, ForeignMeta, Identity, Imported, OpenedSecrets,
    PassphraseSource, ReadOptions, StateFormat,
};
pub use formats::{Detected, Formats};
pub use native::Native;
pub use pulumi::Pulumi;
pub use secrets::{
    MarkedSecrets, add_chosen_marks, add_marks, find_copies, known_secrets, mark_secrets, readable_fields,
    secret_names,
};
pub use state_file::StateFile;
pub use terraform::Terraform;
pub use unobin::Unobin;
pub use verdict::{ImportVerdict, Refusal};

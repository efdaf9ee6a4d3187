//! The formats, and which one some bytes have.

use crate::error::{Error, Result};
use crate::{compression, pulumi, terraform, unobin};
use std::fmt;
use std::str::FromStr;

/// A format of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own snapshot, stored or pretty.
    Native,
    /// Terraform's and OpenTofu's state file, version 4.
    Terraform,
    /// Pulumi's checkpoint or deployment, versions 0 to 4.
    Pulumi,
    /// unobin's snapshot, as its release 0.4.0 writes it.
    Unobin,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::Terraform, Self::Pulumi, Self::Unobin];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Terraform => "terraform",
            Self::Pulumi => "pulumi",
            Self::Unobin => "unobin",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
                let shown: String = text.chars().take(60).collect();
                Error::Core(state_core::Error::invalid(
                    format!("format `{}`", shown.escape_debug()),
                    format!("the formats are: {}", names.join(", ")),
                ))
            })
    }
}

/// Says by content which format some bytes have.
///
/// # Errors
/// [`Error::NoState`] for 0 bytes, [`Error::NotAState`] and [`Error::Version`] for what is known and refused (each says
/// what it is), [`Error::Core`] for bytes that are no JSON, and [`Error::Unrecognised`] for JSON of another kind.
pub fn detect(bytes: &[u8]) -> Result<Format> {
    if compression::Packing::of(bytes).is_some() {
        return detect(&compression::unpack(bytes.to_vec())?);
    }
    let document = terraform::document(bytes)?;
    let root = document.root();
    if root.get("format-version").is_some() {
        return Ok(if unobin::is_it(&document) {
            Format::Unobin
        } else {
            Format::Native
        });
    }
    if pulumi::is_it(&document) {
        return Ok(Format::Pulumi);
    }
    if root.get("version").is_none() {
        let reason = if root.members().is_none() {
            format!("the top level is of kind {}, not object", root.kind())
        } else {
            "there is neither `version` nor `format-version` at the top level".to_owned()
        };
        return Err(Error::Unrecognised { reason });
    }
    terraform::check_version(&document)?;
    if root.get("terraform_version").is_none() && root.get("lineage").is_none() {
        let reason = "`version` is 4, but there is neither `terraform_version` nor `lineage`";
        return Err(Error::Unrecognised {
            reason: reason.to_owned(),
        });
    }
    Ok(Format::Terraform)
}

//! The formats, and which one some bytes have.

use crate::error::{Error, Result};
use crate::{compression, pulumi, terraform, unobin};
use state_core::json::View;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A format of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own snapshot, stored or pretty.
    Native,
    /// Terraform's and OpenTofu's state file, versions 1 to 4.
    Terraform,
    /// Pulumi's checkpoint or deployment, versions 0 to 4.
    Pulumi,
    /// unobin's snapshot, as its release 0.4.0 writes it and as later ones do, if they don't encrypt it.
    Unobin,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::Terraform, Self::Pulumi, Self::Unobin];

    /// What is read in this format, for people.
    pub const fn reads(self) -> &'static str {
        match self {
            Self::Native => "our own snapshots, as they are stored and as they are exported",
            Self::Terraform => {
                "Terraform's and OpenTofu's states of version 4; versions 1 to 3, brought to version 4; OpenTofu's \
                 encrypted states with a passphrase (`pbkdf2`, `aes_gcm`; feature `opentofu-encryption`)"
            }
            Self::Pulumi => {
                "checkpoints of versions 0 (bare) to 4 and `stack export` deployments, plain, gzip or zstd; secrets under a \
                 passphrase on request (feature `pulumi-secrets`)"
            }
            Self::Unobin => {
                "snapshots of release 0.4.0 and of later ones to 0.11, these also in their envelope, unless it is encrypted"
            }
        }
    }

    /// What is written, for people.
    pub const fn writes(self) -> &'static str {
        match self {
            Self::Native => "any stack, indented",
            Self::Terraform => {
                "what came from Terraform: byte for byte until it changes, then as Terraform 1.11 writes version 4"
            }
            Self::Pulumi => {
                "what came from Pulumi: byte for byte until it changes, then as Pulumi writes it; unpacked"
            }
            Self::Unobin => {
                "as the release that wrote it, its envelope included; any stack that 0.4.0 can say"
            }
        }
    }

    /// What is known and refused, each in a sentence that says what it is.
    pub const fn refuses(self) -> &'static str {
        match self {
            Self::Native => "other format versions",
            Self::Terraform => {
                "version 0; the backend pointer of a working directory; encrypted states whose key is elsewhere; keys that \
                 stand twice"
            }
            Self::Pulumi => "features of version 4 that it doesn't know; later versions",
            Self::Unobin => "plans; what `env-key`, `kms` or `gcp-kms` encrypted",
        }
    }

    /// All formats as a table in Markdown: what the README shows.
    pub fn table() -> String {
        let mut table =
            String::from("| `--format` | reads | writes | refuses by name |\n|---|---|---|---|\n");
        for format in Self::ALL {
            let (reads, writes, refuses) = (format.reads(), format.writes(), format.refuses());
            table.push_str(&format!("| `{format}` | {reads} | {writes} | {refuses} |\n"));
        }
        table
    }

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

/// Says by content which format some bytes have; what is packed is unpacked once, as [`import`](crate::import) does it.
///
/// # Errors
/// [`Error::NoState`] for 0 bytes, [`Error::NotAState`], [`Error::Version`] and [`Error::Encrypted`] for what is known and
/// refused (each says what it is), [`Error::Core`] for bytes that are no JSON, and [`Error::Unrecognised`] for JSON of another kind.
pub fn detect(bytes: &[u8]) -> Result<Format> {
    let bytes = plain(bytes)?;
    if bytes.is_empty() {
        return Err(Error::NoState);
    }
    // Nobody knows yet whose state it is.
    told(&bytes).map_err(|error| error.about("state"))
}

/// The bytes, unpacked if they are packed. Once: a stream may well unpack to itself.
fn plain(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    match compression::Packing::of(bytes) {
        Some(_) => compression::unpack(bytes.to_vec()).map(Cow::Owned),
        None => Ok(Cow::Borrowed(bytes)),
    }
}

fn told(bytes: &[u8]) -> Result<Format> {
    let document = terraform::document(bytes)?;
    let root = document.root();
    terraform::check_neighbours(&root)?;
    if unobin::is_it(&document) {
        return Ok(Format::Unobin);
    }
    if root.get("format-version").is_some() {
        return Ok(Format::Native);
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
    let version = terraform::check_version(&document)?;
    if version < 4 {
        return detect_old(&root, version);
    }
    if root.get("terraform_version").is_none() && root.get("lineage").is_none() {
        let reason = "`version` is 4, but there is neither `terraform_version` nor `lineage`";
        return Err(Error::Unrecognised {
            reason: reason.to_owned(),
        });
    }
    Ok(Format::Terraform)
}

/// What a document of that format says of itself, for people: its version, and who wrote it. Bounded, and without values.
///
/// Made for what [`detect`] found: of another document it says less.
pub fn describe(bytes: &[u8], format: Format) -> String {
    let plain = plain(bytes).unwrap_or_default();
    let Ok(document) = terraform::document(&plain) else {
        return format!("a {format} document");
    };
    let root = document.root();
    let number = |key: &str| root.get(key).and_then(|view| view.as_u64()).unwrap_or_default();
    match format {
        Format::Native => format!(
            "a snapshot of statectl, format version {}",
            number("format-version")
        ),
        Format::Unobin => format!(
            "a snapshot of unobin, format version {}",
            number("format-version")
        ),
        Format::Pulumi => format!("a state of Pulumi, version {}", number("version")),
        Format::Terraform => {
            let version = root.get("terraform_version").and_then(|view| view.as_str());
            let writer = version.filter(|text| terraform::is_version(text));
            let writer = writer
                .map(|version| format!(", written by {version}"))
                .unwrap_or_default();
            format!(
                "a state of Terraform or OpenTofu, format version {}{writer}",
                number("version")
            )
        }
    }
}

/// What Terraform up to 0.11 wrote has modules, Pulumi's checkpoints have the same versions and none.
fn detect_old(root: &View<'_>, version: u64) -> Result<Format> {
    if root.get("modules").is_some() {
        return Ok(Format::Terraform);
    }
    Err(Error::Unrecognised {
        reason: format!(
            "`version` is {version}, but there are no `modules`, as Terraform's states of that version have"
        ),
    })
}

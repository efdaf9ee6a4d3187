//! Programs that are documents: YAML or JSON, read into a [`Source`](crate::Source).
//!
//! ```text
//!  bytes ──parse──► Program ──configure──► Configured ──into_source──► ListSource
//!                   places, names           values of settings          goals, resolved when they are ready
//! ```
//!
//! A document has these members, all but `resources` optional:
//!
//! ```yaml
//! name: site                                  # for people
//! description: A small web site
//! config:
//!   dir: { type: string, default: ./site, description: where the files go }
//!   token: { type: string, secret: true }     # must be given
//!   salt: { type: string, secret: true, sealed: "what `statectl secret encrypt salt` printed" }
//! resources:
//!   password:
//!     kind: random:password
//!     inputs: { length: 24 }
//!   page:
//!     kind: file
//!     inputs:
//!       path: ${config.dir}/index.html
//!       content: "Hello\n"
//!     options:
//!       depends_on: [password]
//! outputs:
//!   url: file://${config.dir}/index.html
//!   password: ${password.result}              # secret, because its source is
//!   page: { value: "${page.path}", sensitive: false, description: the page }
//! ```
//!
//! # References
//! `${name.output}`, `${name.output.member[0]["any key"]}`, `${name.id}` and `${config.name}` stand for values; `$${` is a
//! literal `${`. A string that is one reference whole takes the value as it is, whatever its type; in a longer text
//! strings, numbers and booleans are joined. A reference in an input makes a dependency, and what is made of
//! a secret is a secret.
//!
//! # Types
//! Plain scalars are those of YAML 1.2's core schema: `yes` is a string, `0644` the number 644. Numbers keep their
//! digits. JSON is read by the same rules.

mod problem;
mod setting;

pub use problem::{Problem, ProgramError};
pub use setting::{Setting, SettingType};

use crate::registry::Registry;
use crate::source::ListSource;
use state_core::Crypter;
use std::collections::BTreeMap;
use std::fmt;

/// A document that was read: its shape is right, its references lead somewhere and go in no circle. Of kinds nothing is
/// known yet. `Debug` shows names only.
pub struct Program {
    name: String,
    settings: Vec<Setting>,
}

impl Program {
    /// Reads a document; `name` is what errors call it, such as its path.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(name: &str, _text: &[u8]) -> Result<Self, ProgramError> {
        Err(ProgramError::not_built_yet(name))
    }

    /// Whether somebody is in charge of every kind.
    ///
    /// # Errors
    /// The kinds of which nobody is.
    pub fn check(&self, _registry: &Registry) -> Result<(), ProgramError> {
        Err(ProgramError::not_built_yet(&self.name))
    }

    /// What it calls itself.
    pub fn title(&self) -> Option<&str> {
        None
    }

    /// What it says of itself.
    pub fn description(&self) -> Option<&str> {
        None
    }

    /// The settings that it declares, in the order of the document.
    pub fn declared(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }

    /// Gives its settings their values: those that are given, as text, else their defaults and what is sealed in the
    /// document, which the stack's crypter opens.
    ///
    /// # Errors
    /// All that is missing, unknown, of another type, or doesn't open.
    pub async fn configure(
        self,
        _given: BTreeMap<String, String>,
        _crypter: Option<&dyn Crypter>,
    ) -> Result<Configured, ProgramError> {
        Err(ProgramError::not_built_yet(&self.name))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A program whose settings have values. `Debug` shows names only.
pub struct Configured {
    program: Program,
}

impl Configured {
    /// What it calls itself.
    pub fn title(&self) -> Option<&str> {
        self.program.title()
    }

    /// What it says of itself.
    pub fn description(&self) -> Option<&str> {
        self.program.description()
    }

    /// The program as a source of the engine.
    ///
    /// # Errors
    /// What only the values of the settings show to be wrong.
    pub fn into_source(self) -> Result<ListSource, ProgramError> {
        Err(ProgramError::not_built_yet(&self.program.name))
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Configured").field(&self.program).finish()
    }
}

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
//! `${name.output}`, `${name.output.member[0]["any key"]}`, `${name.id}` (the provider's name for the object) and
//! `${config.name}` stand for values in inputs and outputs; `$${` is a literal `${`. A string that is one reference whole takes
//! the value as it is, whatever its type; in a longer text strings, numbers and booleans are joined. Inside `{ }` and `[ ]` YAML
//! wants such strings in quotes. A reference in an input makes a dependency.
//!
//! # Secrets
//! What is made of a secret output or setting is a secret, at exactly the place where the reference stands; `sensitive: false` of
//! an output takes nothing of that away. The options `sensitive_inputs` and `sensitive_outputs` name more, as names or JSON
//! pointers. A secret setting has no default; what is `sealed` is taken as it was sealed, a line end included.
//!
//! # YAML
//! Plain scalars are those of YAML 1.2's core schema: `yes` is a string, `0644` the number 644. Numbers keep their digits. Anchors,
//! aliases, merge keys and tags of one's own are refused, and so are names that stand twice. JSON is read by the same rules.
//!
//! # What isn't known yet
//! In a preview an input that refers to what isn't done yet is left out whole, and noted in
//! [`Goal::unknown`](crate::Goal::unknown). An output of the stack that nobody knows, then or because a resource failed, stays as it
//! was.

mod checks;
mod document;
mod evaluation;
mod expression;
mod fields;
mod node;
mod options;
mod output;
mod problem;
mod resource;
mod scalar;
mod secret;
mod setting;
mod template;
#[cfg(test)]
mod tests;
mod yaml;

pub use problem::{Problem, ProgramError};
pub use setting::{Setting, SettingType};

use crate::registry::Registry;
use crate::source::{Declared, ListSource};
use evaluation::Scope;
use fields::Fields;
use node::{Node, Path};
use output::Output;
use problem::Problems;
use resource::Resource;
use setting::{Declaration, Settings};
use state_core::Crypter;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A document that was read: its shape is right, its references lead somewhere and go in no circle. Of kinds nothing is
/// known yet. `Debug` shows names only.
pub struct Program {
    name: Arc<str>,
    title: Option<String>,
    description: Option<String>,
    settings: Vec<Declaration>,
    resources: Vec<Arc<Resource>>,
    outputs: Arc<[Output]>,
}

impl Program {
    /// Reads a document; `name` is what errors call it, such as its path.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, ProgramError> {
        let mut program = Self {
            name: name.into(),
            title: None,
            description: None,
            settings: Vec::new(),
            resources: Vec::new(),
            outputs: Arc::default(),
        };
        let mut problems = Problems::default();
        if let Some(root) = document::read(text, &mut problems) {
            program.read(&root, &mut problems);
        }
        problems.none_in(name, program)
    }

    fn read(&mut self, root: &Node, problems: &mut Problems) {
        const MEMBERS: [&str; 5] = ["name", "description", "config", "resources", "outputs"];
        let Some(mut fields) = Fields::of(root, &MEMBERS, &Path::Whole, problems) else {
            return;
        };
        self.title = fields.prose("name");
        self.description = fields.prose("description");
        self.settings = fields.named("config", setting::declaration);
        match fields.get("resources") {
            Some(node) => {
                let path = Path::Whole.member("resources");
                self.resources = resource::resources(node, &path, fields.problems);
            }
            // Not the same as none: a document that was cut short would delete everything.
            None => {
                let problem = Problem::at(root.place, &Path::Whole, "it has no `resources`");
                fields.problem(problem.with_hint("a program without any is written `resources: {}`"));
            }
        }
        self.outputs = fields.named("outputs", output::output).into();
        checks::links(&self.settings, &self.resources, &self.outputs, problems);
    }

    /// Whether somebody is in charge of every kind, takes the inputs and gives the outputs that are referred to: as far as
    /// providers describe their kinds, and the document alone tells it. What references stand for is judged in the run.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn check(&self, registry: &Registry) -> Result<(), ProgramError> {
        let mut problems = Problems::default();
        checks::kinds(&self.resources, &self.outputs, registry, &mut problems);
        problems.none_in(&self.name, ())
    }

    /// What it calls itself.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What it says of itself.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The settings that it declares, in the order of the document.
    pub fn declared(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().map(|declared| &declared.setting)
    }

    /// Gives its settings their values: those that are given, as text, else their defaults and what is sealed in the
    /// document, which the stack's crypter opens.
    ///
    /// # Errors
    /// All that is missing, unknown, of another type, or doesn't open.
    pub async fn configure(
        &self,
        given: BTreeMap<String, String>,
        crypter: Option<&dyn Crypter>,
    ) -> Result<Configured, ProgramError> {
        let mut problems = Problems::default();
        let settings = setting::values(&self.settings, &given, crypter, &mut problems);
        let configured = Configured {
            name: Arc::clone(&self.name),
            resources: self.resources.clone(),
            outputs: Arc::clone(&self.outputs),
            settings,
        };
        problems.none_in(&self.name, configured)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, "Program", &self.name, &self.resources)
    }
}

fn named(f: &mut fmt::Formatter<'_>, what: &str, name: &str, resources: &[Arc<Resource>]) -> fmt::Result {
    let addresses = resources.iter().map(|resource| &resource.goal.address);
    f.debug_struct(what)
        .field("name", &name)
        .field("resources", &addresses.collect::<Vec<_>>())
        .finish_non_exhaustive()
}

/// A program whose settings have values. `Debug` shows names only.
pub struct Configured {
    name: Arc<str>,
    resources: Vec<Arc<Resource>>,
    outputs: Arc<[Output]>,
    settings: Settings,
}

impl Configured {
    /// The program as a source of the engine. Inputs that refer to no resource are evaluated here, once.
    ///
    /// # Errors
    /// What only the values of the settings show to be wrong.
    pub fn into_source(self) -> Result<ListSource, ProgramError> {
        let Self {
            name,
            resources,
            outputs,
            settings,
        } = self;
        let settings = Arc::new(settings);
        let scope = Scope {
            settings: &settings,
            ledger: None,
        };
        let mut problems = Problems::default();
        let declare = |resource: Arc<Resource>| {
            let goal = resource.filled(&scope, &mut problems);
            if resource.refers_to_no_other() {
                return Declared::known(goal);
            }
            let (name, settings) = (Arc::clone(&name), Arc::clone(&settings));
            Declared::resolved(resource.goal.clone(), move |_, ledger| {
                let scope = Scope {
                    settings: &settings,
                    ledger: Some(ledger),
                };
                let mut problems = Problems::default();
                let goal = resource.filled(&scope, &mut problems);
                Ok(problems.none_in(&name, goal)?)
            })
        };
        let declared = resources.into_iter().map(declare).collect();
        for output in &*outputs {
            output.value.evaluate(&scope, &mut problems);
        }
        problems.none_in(&name, ())?;
        let source = ListSource::new(declared).map_err(|error| unforeseen(&name, &error))?;
        Ok(source.with_outputs(move |ledger| {
            let scope = Scope {
                settings: &settings,
                ledger: Some(ledger),
            };
            Ok(output::made(&name, &outputs, &scope, ledger.outputs())?)
        }))
    }
}

/// What [`checks::links`] finds first, with its place.
fn unforeseen(name: &str, error: &crate::EngineError) -> ProgramError {
    ProgramError {
        name: name.to_owned(),
        problems: vec![document::wrong(node::Place::START, error.to_string())],
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, "Configured", &self.name, &self.resources)
    }
}

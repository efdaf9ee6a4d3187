//! Programs written as YAML or JSON documents, read into a [`Source`](crate::Source).
//!
//! ```text
//!  bytes ──parse──► Program ──configure──► Configured ──into_source──► ListSource
//!                   positions, names        values of settings          goals, resolved when ready
//! ```
//!
//! A document has the following members. Only `resources` is required:
//!
//! ```yaml
//! name: site                                  # shown to users
//! description: A small web site
//! config:
//!   dir: { type: string, default: ./site, description: where the files go }
//!   token: { type: string, secret: true }     # required
//!   salt: { type: string, secret: true, sealed: "output of `statectl secret encrypt salt`" }
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
//!   password: ${password.result}              # secret, because the output `result` is secret
//!   page: { value: "${page.path}", sensitive: false, description: the page }
//! ```
//!
//! # References
//! In inputs and outputs, `${name.output}`, `${name.output.member[0]["any key"]}`, `${name.id}` (the provider's
//! id of the object) and `${config.name}` are replaced by values; `$${` is a literal `${`. A string that consists of
//! one reference becomes the referenced value, with the type of this value. In a longer string, references must resolve
//! to strings, numbers or booleans and are converted to text. Inside `{ }` and `[ ]` YAML requires quotes around
//! strings with references. A reference in an input makes the resource to which it refers a dependency.
//!
//! # Secrets
//! A value that refers to a secret output or setting is secret at exactly the position of the reference. The member
//! `sensitive: false` of a stack output doesn't change this. The options `sensitive_inputs` and `sensitive_outputs`
//! mark more values, as names or JSON pointers. A secret setting has no default; a `sealed` value is decrypted exactly
//! as it was encrypted, including a final newline.
//!
//! # YAML
//! Plain scalars follow YAML 1.2's core schema: `yes` is a string, `0644` is the number 644. Numbers keep all their
//! digits. Anchors, aliases, merge keys, custom tags and duplicate names are refused. JSON documents follow the
//! same rules.
//!
//! # Unknown values
//! In a preview, the values of some outputs aren't known yet. An input with a reference to such an output is left out
//! as a whole, and the name of the input is added to [`Goal::unknown`](crate::Goal::unknown). A stack output whose
//! value is unknown, in a preview or because a resource failed, keeps its previous value.

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
use crate::source::{DeclaredResource, ListSource};
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

/// A parsed document. Its structure is valid, its references name existing resources and settings, and it has no
/// dependency cycle. [`Program::check`] checks the kinds of its resources. `Debug` shows names only.
pub struct Program {
    name: Arc<str>,
    title: Option<String>,
    description: Option<String>,
    settings: Vec<Declaration>,
    resources: Vec<Arc<Resource>>,
    outputs: Arc<[Output]>,
}

impl Program {
    /// Parses a document. `name` denotes the document in errors; for example, it is the path of the file.
    ///
    /// # Errors
    /// Returns all problems of the document.
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
            // A missing member must not mean "no resources": an update with a truncated document would then delete all
            // resources of the stack.
            None => {
                let problem = Problem::at(root.place, &Path::Whole, "`resources` is missing");
                fields.problem(problem.with_hint("write `resources: {}` for a program without resources"));
            }
        }
        self.outputs = fields.named("outputs", output::output).into();
        checks::links(&self.settings, &self.resources, &self.outputs, problems);
    }

    /// Checks that the registry has a provider for every kind. If the provider describes the kind, also checks the
    /// inputs of each resource, and that the outputs in references exist. The run checks the values of references,
    /// because they are known only then.
    ///
    /// # Errors
    /// Returns all problems with their positions.
    pub fn check(&self, registry: &Registry) -> Result<(), ProgramError> {
        let mut problems = Problems::default();
        checks::kinds(&self.resources, &self.outputs, registry, &mut problems);
        problems.none_in(&self.name, ())
    }

    /// The name of the program, from the member `name`.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The description of the program, from the member `description`.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The declared settings, in document order.
    pub fn declared(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().map(|declared| &declared.setting)
    }

    /// Assigns values to the settings. `given` maps names of settings to values as text. All other settings take the
    /// default or the sealed value in the document. `crypter` decrypts sealed values; it is `None` if no key is
    /// available.
    ///
    /// # Errors
    /// Returns all problems: missing and unknown settings, values of a wrong type, and values that can't be
    /// decrypted.
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
    /// Turns the program into a source for the engine. A resource without references to other resources is evaluated
    /// here, once. Every other resource is evaluated when it becomes ready.
    ///
    /// # Errors
    /// Returns all problems that depend on the values of the settings, such as a reference to a missing member of a
    /// setting.
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
            let goal = resource.evaluated_goal(&scope, &mut problems);
            if resource.refers_to_no_other() {
                return DeclaredResource::known(goal);
            }
            let (name, settings) = (Arc::clone(&name), Arc::clone(&settings));
            DeclaredResource::resolved(goal, move |_, ledger| {
                let scope = Scope {
                    settings: &settings,
                    ledger: Some(ledger),
                };
                let mut problems = Problems::default();
                let goal = resource.evaluated_goal(&scope, &mut problems);
                Ok(problems.none_in(&name, goal)?)
            })
        };
        let declared = resources.into_iter().map(declare).collect();
        for output in &*outputs {
            output.value.evaluate(&scope, &mut problems);
        }
        problems.none_in(&name, ())?;
        let source = ListSource::new(declared).map_err(|error| unexpected_error(&name, &error))?;
        Ok(source.with_outputs(move |ledger| {
            let scope = Scope {
                settings: &settings,
                ledger: Some(ledger),
            };
            Ok(output::evaluate_all(&name, &outputs, &scope, ledger.outputs())?)
        }))
    }
}

/// Converts an error of [`ListSource::new`]. Such an error shows a defect: [`checks::links`] should have found the same
/// problem, and reported it with its position.
fn unexpected_error(name: &str, error: &crate::EngineError) -> ProgramError {
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

//! Test programs for the simulated cloud: lists of [`Spec`]s, which the lifecycle fuzzer generates and compares with
//! the recorded state.

use crate::cloud::KINDS;
use state_core::json::ObjectWriter;
use state_core::{Address, Json, Properties};
use state_engine::{DeclaredResource, Goal, Ledger, ListSource, Operation};
use std::collections::BTreeSet;
use std::fmt;

/// One resource of a test program.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// Whether the kind is `solo`, whose objects are replaced by deleting first.
    pub(crate) solo: bool,
    /// Input that an update changes in place.
    pub(crate) size: u64,
    /// Input whose change replaces the object.
    pub(crate) fixed: u64,
    /// Names of resources whose ids are the input `uses`.
    pub(crate) uses: Vec<String>,
    /// Names of resources whose ids are the input `needs`; a change replaces the object.
    pub(crate) needs: Vec<String>,
    pub(crate) depends_on: Vec<String>,
    pub(crate) parent: Option<String>,
    pub(crate) provider: Option<String>,
    /// The container that the object is created in and deleted with.
    pub(crate) inside: Option<String>,
    pub(crate) replace_with: Vec<String>,
    pub(crate) protect: bool,
    pub(crate) retain: bool,
    pub(crate) delete_first: Option<bool>,
    pub(crate) import: Option<String>,
    pub(crate) read: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) secret: Vec<String>,
    /// Number of padding bytes in the inputs.
    pub(crate) padding: usize,
}

/// Shows the name, kind, `size` and `fixed`, and other fields only if they are set. Omits `secret` and `padding`.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} size {} fixed {}",
            self.name,
            self.kind(),
            self.size,
            self.fixed
        )?;
        let lists = [
            ("uses", &self.uses),
            ("needs", &self.needs),
            ("after", &self.depends_on),
            ("replace-with", &self.replace_with),
            ("was", &self.aliases),
        ];
        for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, ", {what} {}", list.join(" "))?;
        }
        let singles = [
            ("in", &self.inside),
            ("parent", &self.parent),
            ("provider", &self.provider),
            ("import", &self.import),
            ("read", &self.read),
        ];
        for (what, single) in singles {
            if let Some(single) = single {
                write!(f, ", {what} {single}")?;
            }
        }
        for (what, is_so) in [("protect", self.protect), ("retain", self.retain)] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        match self.delete_first {
            None => Ok(()),
            Some(first) => write!(f, ", delete-first {first}"),
        }
    }
}

/// A resource of kind `thing` with default inputs and no dependencies.
pub(crate) fn spec(name: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        solo: false,
        size: 1,
        fixed: 1,
        uses: Vec::new(),
        needs: Vec::new(),
        depends_on: Vec::new(),
        parent: None,
        provider: None,
        inside: None,
        replace_with: Vec::new(),
        protect: false,
        retain: false,
        delete_first: None,
        import: None,
        read: None,
        aliases: Vec::new(),
        secret: Vec::new(),
        padding: 0,
    }
}

fn address(name: &str) -> Address {
    name.parse().unwrap()
}

fn names(list: &[String]) -> Vec<Address> {
    list.iter().map(|name| address(name)).collect()
}

impl Spec {
    pub(crate) fn uses(mut self, names: &[&str]) -> Self {
        self.uses = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    pub(crate) fn needs(mut self, names: &[&str]) -> Self {
        self.needs = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    pub(crate) fn child_of(mut self, name: &str) -> Self {
        self.parent = Some(name.to_owned());
        self
    }

    pub(crate) fn managed_by(mut self, name: &str) -> Self {
        self.provider = Some(name.to_owned());
        self
    }

    pub(crate) fn inside(mut self, name: &str) -> Self {
        self.inside = Some(name.to_owned());
        self
    }

    pub(crate) fn was(mut self, name: &str) -> Self {
        self.aliases.push(name.to_owned());
        self
    }

    pub(crate) fn solo(mut self) -> Self {
        self.solo = true;
        self
    }

    pub(crate) fn size(mut self, size: u64) -> Self {
        self.size = size;
        self
    }

    pub(crate) fn fixed(mut self, fixed: u64) -> Self {
        self.fixed = fixed;
        self
    }

    pub(crate) fn secret(mut self, input: &str) -> Self {
        self.secret.push(input.to_owned());
        self
    }

    pub(crate) fn padded(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    pub(crate) fn protected(mut self) -> Self {
        self.protect = true;
        self
    }

    pub(crate) fn kind(&self) -> &'static str {
        KINDS[usize::from(self.solo)]
    }

    fn goal(&self) -> Goal {
        let mut goal = Goal::new(address(&self.name), self.kind());
        goal.sensitive_inputs.clone_from(&self.secret);
        let options = &mut goal.options;
        options.depends_on = names(&self.depends_on);
        for (input, list) in [("uses", &self.uses), ("needs", &self.needs)] {
            if !list.is_empty() {
                options
                    .property_dependencies
                    .insert(input.to_owned(), names(list));
            }
        }
        if let Some(container) = &self.inside {
            let on = vec![address(container)];
            options.property_dependencies.insert("in".to_owned(), on);
            options.deleted_with = Some(address(container));
        }
        options.parent = self.parent.as_deref().map(address);
        options.provider = self.provider.as_deref().map(address);
        options.replace_with = names(&self.replace_with);
        options.protect = self.protect;
        options.retain_on_delete = self.retain;
        options.delete_before_replace = self.delete_first;
        options.import.clone_from(&self.import);
        options.read.clone_from(&self.read);
        options.aliases = names(&self.aliases);
        goal
    }

    /// Returns the inputs, and the names of inputs that are omitted because `id` returns `None` for a referenced
    /// resource.
    pub(crate) fn inputs(&self, id: impl Fn(&str) -> Option<String>) -> (Properties, BTreeSet<String>) {
        let mut text = String::new();
        let mut unknown = BTreeSet::new();
        let mut object = ObjectWriter::new(&mut text);
        object.u64("fixed", self.fixed);
        if let Some(container) = &self.inside {
            match id(container) {
                Some(id) => {
                    object.string("in", &id);
                }
                None => {
                    unknown.insert("in".to_owned());
                }
            }
        }
        for (input, list) in [("needs", &self.needs), ("uses", &self.uses)] {
            let ids: Option<Vec<String>> = list.iter().map(|name| id(name)).collect();
            match ids {
                Some(ids) if !list.is_empty() => {
                    let mut array = object.array(input);
                    for id in &ids {
                        array.string(id);
                    }
                    array.finish();
                }
                Some(_) => {}
                None => {
                    unknown.insert(input.to_owned());
                }
            }
        }
        if self.padding > 0 {
            object.string("padding", &"x".repeat(self.padding));
        }
        object.u64("size", self.size);
        object.finish();
        let inputs = Properties::new(Json::parse(&text).unwrap()).unwrap();
        (inputs, unknown)
    }

    /// The resource for a [`ListSource`], which computes the inputs from the ids of committed dependencies.
    pub(crate) fn declared(&self) -> DeclaredResource {
        let spec = self.clone();
        DeclaredResource::resolved(self.goal(), move |mut goal, ledger: &Ledger| {
            let id = |name: &str| {
                let of = ledger.committed(&address(name))?;
                of.is_known("id").then(|| of.id().map(str::to_owned)).flatten()
            };
            (goal.inputs, goal.unknown) = spec.inputs(id);
            Ok(goal)
        })
    }
}

/// A source that declares the resources of the specs.
pub(crate) fn source(specs: &[Spec]) -> ListSource {
    ListSource::new(specs.iter().map(Spec::declared).collect()).unwrap()
}

/// An update to a program that declares the resources of the specs.
pub(crate) fn update(specs: &[Spec]) -> Operation {
    Operation::Update(Box::new(source(specs)))
}

//! What a list of edits means, computed without any code of the product.

use super::Planned;
use serde_json::Value;
use state_tests::dice::Dice;
use std::collections::BTreeMap;

/// The recorded objects by address, and all former states.
#[derive(Clone, Debug)]
pub(super) struct Model {
    objects: BTreeMap<String, Object>,
    /// The objects before each revision that the edits made, oldest first.
    past: Vec<BTreeMap<String, Object>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    id: String,
    tainted: bool,
    protected: bool,
}

impl Model {
    /// Reads a state file.
    pub(super) fn of(state: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut objects = BTreeMap::new();
        for resource in state["resources"].as_array().expect("resources") {
            let module = text(&resource["module"])
                .map(|module| module + ".")
                .unwrap_or_default();
            let (kind, name) = (text(&resource["type"]), text(&resource["name"]));
            for instance in resource["instances"].as_array().expect("instances") {
                let key = match &instance["index_key"] {
                    Value::Null => String::new(),
                    key => format!("[{key}]"),
                };
                let address = format!(
                    "{module}{}.{}{key}",
                    kind.as_deref().expect("a type"),
                    name.as_deref().expect("a name")
                );
                let object = Object {
                    id: text(&instance["attributes"]["id"]).expect("an id"),
                    tainted: instance["status"] == "tainted",
                    protected: false,
                };
                objects.insert(address, object);
            }
        }
        Self {
            objects,
            past: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn id(&self, address: &str) -> Option<&str> {
        self.objects.get(address).map(|object| object.id.as_str())
    }

    /// The plan of a configuration that declares the addresses of `declared`.
    pub(super) fn plan(&self, declared: &Self) -> Vec<Planned> {
        let mut plan = Vec::new();
        for (address, object) in &self.objects {
            let id = Some(object.id.clone());
            if !declared.objects.contains_key(address) {
                plan.push((address.clone(), "delete".to_owned(), id));
            } else if object.tainted {
                plan.push((address.clone(), "create,delete".to_owned(), id));
            }
        }
        let missing = declared
            .objects
            .keys()
            .filter(|address| !self.objects.contains_key(*address));
        plan.extend(missing.map(|address| (address.clone(), "create".to_owned(), None)));
        plan.sort();
        plan
    }

    /// The addresses that an argument selects: itself, or all in the group or module.
    fn selected(&self, argument: &str) -> Vec<String> {
        let is_in = |address: &&String| {
            let rest = address.strip_prefix(argument);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.objects.keys().filter(is_in).cloned().collect()
    }

    /// Records a new revision, unless nothing changed.
    fn commit(&mut self, objects: BTreeMap<String, Object>) {
        if objects != self.objects {
            self.past.push(std::mem::replace(&mut self.objects, objects));
        }
    }
}

/// One edit of a sequence, which the test performs with `statectl` and in the model.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Mv(String, String),
    Rm(String),
    Taint(String),
    Untaint(String),
    Protect(String),
    Undo,
    /// An edit that Terraform can't hold.
    Refused(Vec<String>),
}

impl Step {
    /// Draws an edit of the present state. `number` makes new names unique.
    pub(super) fn draw(dice: &mut Dice, model: &Model, number: usize) -> Self {
        let addresses: Vec<&String> = model.objects.keys().collect();
        if addresses.is_empty() {
            return Self::Undo;
        }
        let address = addresses[dice.index(addresses.len())].clone();
        let containers = containers(&model.objects);
        let container = || containers.first().cloned();
        match dice.below(12) {
            0..=2 => Self::Mv(address.clone(), renamed(&address, number, dice)),
            3..=4 if container().is_some() => {
                let container = containers[dice.index(containers.len())].clone();
                let to = match dice.one_in(2) {
                    true => format!("module.moved{number}"),
                    false => format!("module.moved{number}[\"k.{number}\"]"),
                };
                // A module whose instances have keys keeps them, so its new name must not have one.
                let has_keys = model
                    .selected(&container)
                    .iter()
                    .all(|address| address[container.len()..].starts_with('['));
                Self::Mv(
                    container,
                    if has_keys {
                        format!("module.moved{number}")
                    } else {
                        to
                    },
                )
            }
            5 if container().is_some() => Self::Rm(containers[dice.index(containers.len())].clone()),
            6 => Self::Rm(address),
            7 => Self::Taint(address),
            8 => Self::Untaint(address),
            9 => Self::Protect(address),
            10 if !model.past.is_empty() => Self::Undo,
            _ => Self::Refused(refused(&address, dice)),
        }
    }

    /// Performs the edit with `statectl` and in the model.
    pub(super) fn perform(&self, model: &mut Model, run: impl Fn(&[&str], i32) -> String) {
        let mut objects = model.objects.clone();
        let mut mark = |address: &String, set: fn(&mut Object)| {
            if let Some(object) = objects.get_mut(address) {
                set(object);
            }
        };
        match self {
            Self::Mv(from, to) => {
                run(&["mv", from, to, "--yes"], 0);
                for address in model.selected(from) {
                    let object = objects.remove(&address).expect("an object");
                    objects.insert(format!("{to}{}", &address[from.len()..]), object);
                }
            }
            Self::Rm(address) => {
                run(&["rm", address, "--force", "--yes"], 0);
                for address in model.selected(address) {
                    objects.remove(&address);
                }
            }
            Self::Taint(address) => {
                run(&["taint", address, "--yes"], 0);
                mark(address, |object| object.tainted = true);
            }
            Self::Untaint(address) => {
                run(&["untaint", address, "--yes"], 0);
                mark(address, |object| object.tainted = false);
            }
            Self::Protect(address) => {
                let text = run(&["protect", address, "--yes"], 0);
                let was = model.objects.get(address).is_some_and(|object| object.protected);
                assert!(was || text.contains("prevent_destroy"), "{text}");
                mark(address, |object| object.protected = true);
            }
            Self::Undo => {
                if let Some(past) = model.past.last() {
                    objects.clone_from(past);
                    run(&["undo", "--yes"], 0);
                }
            }
            Self::Refused(arguments) => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let text = run(&arguments, 4);
                assert!(text.contains("Terraform"), "{text}");
            }
        }
        model.commit(objects);
    }
}

/// A new address for one instance that no configuration declares.
fn renamed(address: &str, number: usize, dice: &mut Dice) -> String {
    let at = address.rfind("terraform_data.").expect("a type");
    let (module, resource) = address.split_at(at);
    let key = resource.find('[').map(|key| &resource[key..]);
    let module = match dice.below(3) {
        0 => String::new(),
        1 => format!("module.into{number}."),
        _ => module.to_owned(),
    };
    let key = match (key, dice.below(3)) {
        (None, _) => String::new(),
        (Some(_), 0) => "[41]".to_owned(),
        (Some(_), 1) => r#"["new \"key\" $${x"]"#.to_owned(),
        (Some(key), _) => key.to_owned(),
    };
    format!("{module}terraform_data.moved{number}{key}")
}

/// The modules and module instances that contain objects.
fn containers(objects: &BTreeMap<String, Object>) -> Vec<String> {
    let mut containers = Vec::new();
    for address in objects.keys() {
        let mut end = 0;
        while address[end..].starts_with("module.") {
            let name = end + "module.".len();
            let name_end = name + address[name..].find(['.', '[']).expect("a resource");
            containers.push(address[..name_end].to_owned());
            end = name_end;
            if address[end..].starts_with('[') {
                end += key_length(&address[end..]);
                containers.push(address[..end].to_owned());
            }
            end += 1;
        }
    }
    containers.sort();
    containers.dedup();
    containers
}

/// The length of a key in brackets at the beginning of a text.
fn key_length(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The arguments of an edit that Terraform can't hold.
fn refused(address: &str, dice: &mut Dice) -> Vec<String> {
    let to = match dice.below(5) {
        0 => "aws_instance.web".to_owned(),
        1 => "not valid !!".to_owned(),
        2 => "data.terraform_data.x".to_owned(),
        3 => "module.a".to_owned(),
        _ => "terraform_data.x[01]".to_owned(),
    };
    ["mv", address, &to, "--yes"].map(str::to_owned).to_vec()
}

//! Objects of the simulated cloud in a folder, one file each, so that they outlive a killed process.

use super::{Inner, Thing};
use state_core::json::ObjectWriter;
use state_core::{Json, Properties};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a simulated cloud.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The objects that the folder contains.
    stored: BTreeMap<String, Thing>,
}

/// Folders below the one of the cloud.
const OBJECTS: &str = "objects";
const CALLS: &str = "calls";
const BROKEN: &str = "broken";

impl Folder {
    /// Opens a folder, and creates it if it doesn't exist.
    pub(super) fn open(path: &Path) -> Self {
        for folder in [OBJECTS, CALLS, BROKEN] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let names = names(&path.join(OBJECTS));
        // The file of an object appears with its whole content. Other files were left over by a killed process.
        let ids = names.into_iter().filter(|name| name.starts_with("i-"));
        let stored = ids.map(|id| {
            let text = fs::read_to_string(path.join(OBJECTS).join(&id)).unwrap();
            (id, decode(&text))
        });
        Self {
            path: path.to_owned(),
            stored: stored.collect(),
        }
    }

    pub(super) fn things(&self) -> BTreeMap<String, Thing> {
        self.stored.clone()
    }

    /// The highest number that an object ever had.
    pub(super) fn last_number(&self) -> u64 {
        let last = fs::read_to_string(self.path.join("last")).unwrap_or_default();
        last.parse().unwrap_or_default()
    }

    /// The calls that began and didn't end.
    pub(super) fn calls(&self) -> Vec<String> {
        names(&self.path.join(CALLS))
    }

    /// The rules that were broken, with the id of the affected object.
    pub(super) fn broken(&self) -> Vec<(String, String)> {
        let folder = self.path.join(BROKEN);
        let rule = |id: String| (fs::read_to_string(folder.join(&id)).unwrap(), id);
        names(&folder).into_iter().map(rule).collect()
    }

    pub(super) fn begin_call(&self, call: &str) {
        fs::write(self.path.join(CALLS).join(call), "").unwrap();
    }

    pub(super) fn end_call(&self, call: &str) {
        fs::remove_file(self.path.join(CALLS).join(call)).unwrap();
    }

    /// Stores all changes of the cloud. Each object is stored at once, or not at all.
    pub(super) fn store(&mut self, next: u64, things: &BTreeMap<String, Thing>, broken: &[(String, String)]) {
        for (rule, id) in broken {
            self.write(BROKEN, id, rule);
        }
        self.write("", "last", &next.to_string());
        for id in self.stored.keys().filter(|id| !things.contains_key(*id)) {
            fs::remove_file(self.path.join(OBJECTS).join(id)).unwrap();
        }
        for (id, thing) in things {
            if self.stored.get(id) != Some(thing) {
                self.write(OBJECTS, id, &encode(thing));
            }
        }
        self.stored.clone_from(things);
    }

    /// Replaces a file at once.
    fn write(&self, folder: &str, name: &str, content: &str) {
        let folder = self.path.join(folder);
        let staged = folder.join(format!(".{name}"));
        fs::write(&staged, content).unwrap();
        fs::rename(staged, folder.join(name)).unwrap();
    }
}

impl Inner {
    /// Stores the objects in the folder, if the cloud has one.
    pub(super) fn store(&mut self) {
        if let Some(folder) = &mut self.folder {
            folder.store(self.next, &self.things, &self.broken);
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let name = |file: std::io::Result<fs::DirEntry>| file.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = files.map(name).filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn encode(thing: &Thing) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.string("address", thing.address.as_str());
    object.raw("inputs", thing.inputs.json().as_str());
    object.string("kind", &thing.kind);
    if let Some(mutation) = thing.made_by {
        object.string("made-by", &mutation.to_string());
    }
    object.finish();
    text
}

fn decode(text: &str) -> Thing {
    let json = Json::parse(text).unwrap();
    let members: BTreeMap<String, _> = json
        .view()
        .members()
        .unwrap()
        .map(|(name, value)| (name.into_owned(), value))
        .collect();
    let string = |name: &str| {
        members
            .get(name)
            .and_then(|value| value.as_str())
            .map(String::from)
    };
    Thing {
        kind: string("kind").unwrap(),
        address: string("address").unwrap().parse().unwrap(),
        inputs: Properties::new(Json::parse(members["inputs"].text()).unwrap()).unwrap(),
        foreign: false,
        made_by: string("made-by").map(|id| id.parse().unwrap()),
    }
}

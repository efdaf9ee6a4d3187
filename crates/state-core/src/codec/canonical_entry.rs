//! Decodes an entry from its canonical text in one pass.

use super::reader::{MAX_VALUE_DEPTH, TextPool};
use crate::address::{Address, Dependency, DeposedKey};
use crate::entry::{Entry, EntryType, Provider};
use crate::environment::Timestamp;
use crate::json::{CanonicalReader, Json, JsonMap, Marks, Properties};
use std::collections::BTreeMap;

/// The depth of the values of an entry. A value that is nested more deeply is left to the general decoder, which knows
/// the exact limit. Two levels less than its limit, because extensions are members of a member of the entry.
const DEPTH: usize = MAX_VALUE_DEPTH - 2;

/// Memory that the decoder uses again for each entry.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    marks: Marks,
    dependencies: Vec<Dependency>,
}

/// Decodes an entry; equal texts share an allocation in `pool`. Returns `None` for a text that isn't the canonical text
/// of an entry, and for one with unknown fields or with keys that need escapes. The general decoder
/// ([`read::entry`](super::read::entry)) then reads the entry, or reports what is wrong with it.
///
/// The stored form is canonical, so nearly every entry is decoded here. Whatever this function accepts, the general
/// decoder decodes to the same entry; a test compares them on damaged texts.
pub(super) fn entry(text: &str, pool: &mut TextPool, scratch: &mut Scratch) -> Option<Entry> {
    // An entry that this function refused may have left dependencies behind.
    scratch.dependencies.clear();
    let mut fields = Fields {
        text: CanonicalReader::new(text, &mut scratch.marks)?,
        pool,
        dependencies: &mut scratch.dependencies,
    };
    // `address` is the first key of every entry.
    fields.text.expect(b'{')?;
    let address = fields.member("address")?;
    let mut entry = Entry::new(address, EntryType::Leaf, None);
    let mut last = "address";
    let mut has_type = false;
    while fields.text.has_next(b'}')? {
        last = fields.text.key_after(Some(last))?;
        has_type |= last == "type";
        fields.field(&mut entry, last)?;
    }
    (has_type && fields.text.is_at_end()).then_some(entry)
}

/// Reads the fields of one entry.
struct Fields<'a, 'p> {
    text: CanonicalReader<'a>,
    pool: &'p mut TextPool,
    dependencies: &'p mut Vec<Dependency>,
}

impl Fields<'_, '_> {
    fn field(&mut self, entry: &mut Entry, key: &str) -> Option<()> {
        match key {
            "type" => entry.entry_type = self.entry_type()?,
            "deposed" => entry.deposed = Some(DeposedKey::new(&*self.text.string()?).ok()?),
            "uid" => entry.uid = Some(self.text.string()?.parse().ok()?),
            "kind" => entry.kind = Some(self.string()?),
            "schema-version" => entry.schema_version = self.text.whole_number()?,
            "group" => entry.group = Some(self.address()?),
            "sensitive-inputs" => entry.sensitive_inputs = self.list(Self::string)?,
            "sensitive-outputs" => entry.sensitive_outputs = self.list(Self::string)?,
            "library" => *entry.library = Some(self.string()?),
            "library-type" => *entry.library_type = Some(self.string()?),
            "configuration" => *entry.configuration = Some(self.string()?),
            "trigger-hash" => *entry.trigger_hash = Some(self.string()?),
            "inputs" => entry.inputs = Some(self.properties()?),
            "outputs" => entry.outputs = Some(self.properties()?),
            "depends-on" => entry.depends_on = self.dependencies()?,
            "id" => entry.id = Some(self.string()?),
            "parent" => entry.parent = Some(self.address()?),
            "provider" => *entry.provider = Some(self.provider()?),
            "property-dependencies" => *entry.property_dependencies = self.property_dependencies()?,
            "deleted-with" => *entry.deleted_with = Some(self.address()?),
            "replace-with" => *entry.replace_with = self.list(Self::address)?,
            "protect" => entry.protect = self.text.flag()?,
            "external" => entry.external = self.text.flag()?,
            "retain-on-delete" => entry.retain_on_delete = self.text.flag()?,
            "pending-replacement" => entry.pending_replacement = self.text.flag()?,
            "tainted" => entry.tainted = self.text.flag()?,
            "init-errors" => entry.init_errors = self.list(Self::string)?,
            "created" => entry.created = Some(self.timestamp()?),
            "modified" => entry.modified = Some(self.timestamp()?),
            "extensions" => entry.extensions = self.extensions()?,
            _ => return None,
        }
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        self.text.string().map(String::from)
    }

    fn address(&mut self) -> Option<Address> {
        let text = self.text.string()?;
        self.pool.address(&text).ok()
    }

    fn timestamp(&mut self) -> Option<Timestamp> {
        self.text.string().map(|text| Timestamp::new(&*text))
    }

    fn entry_type(&mut self) -> Option<EntryType> {
        let name = self.text.string()?;
        EntryType::ALL.into_iter().find(|known| known.name() == name)
    }

    fn list<T>(&mut self, element: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut list = Vec::new();
        let mut has_next = self.text.open(b'[', b']')?;
        while has_next {
            list.push(element(self)?);
            has_next = self.text.has_next(b']')?;
        }
        Some(list)
    }

    /// Reads a list of dependencies. They are collected in the scratch memory first, so that the list has no spare room.
    fn dependencies(&mut self) -> Option<Vec<Dependency>> {
        let mut has_next = self.text.open(b'[', b']')?;
        while has_next {
            let dependency = self.dependency()?;
            self.dependencies.push(dependency);
            has_next = self.text.has_next(b']')?;
        }
        Some(self.dependencies.drain(..).collect())
    }

    fn dependency(&mut self) -> Option<Dependency> {
        if self.text.peek() == Some(b'"') {
            return self.address().map(Dependency::Entry);
        }
        self.text.expect(b'{')?;
        let address = self.member("group")?;
        self.text.expect(b'}')?;
        Some(Dependency::Group(address))
    }

    /// Reads the first member of an object, which must have this key and an address as its value.
    fn member(&mut self, key: &str) -> Option<Address> {
        if self.text.key_after(None)? != key {
            return None;
        }
        self.address()
    }

    fn provider(&mut self) -> Option<Provider> {
        self.text.expect(b'{')?;
        let address = self.member("address")?;
        let mut id = None;
        if self.text.reads(b',') {
            if self.text.key_after(None)? != "id" {
                return None;
            }
            id = Some(self.string()?);
        }
        self.text.expect(b'}')?;
        Some(Provider { address, id })
    }

    fn properties(&mut self) -> Option<Properties> {
        Properties::new(Json::of_canonical(self.text.value(DEPTH)?.into()))
    }

    fn property_dependencies(&mut self) -> Option<BTreeMap<String, Vec<Dependency>>> {
        let mut all = BTreeMap::new();
        let mut last = None;
        let mut has_next = self.text.open(b'{', b'}')?;
        while has_next {
            let key = self.text.key_after(last)?;
            all.insert(key.to_owned(), self.dependencies()?);
            last = Some(key);
            has_next = self.text.has_next(b'}')?;
        }
        Some(all)
    }

    fn extensions(&mut self) -> Option<JsonMap> {
        let mut all = JsonMap::new();
        let mut last = None;
        let mut has_next = self.text.open(b'{', b'}')?;
        while has_next {
            let key = self.text.key_after(last)?;
            let value = self.pool.text(self.text.value(DEPTH)?);
            all.insert(self.pool.text(key), Json::of_canonical(value));
            last = Some(key);
            has_next = self.text.has_next(b'}')?;
        }
        Some(all)
    }
}

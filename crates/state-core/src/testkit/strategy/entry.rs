//! Generates the content of entries, apart from names and references.

use super::json::{json_objects, json_values, keys};
use crate::entry::{Entry, EntryType};
use crate::environment::Timestamp;
use crate::json::{JsonMap, Properties};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// The content of an entry: everything but address, deposed key, uid, group and references.
#[derive(Clone, Debug)]
pub(super) struct Content {
    form: Form,
    data: Data,
    marks: Marks,
    rest: Rest,
}

/// The type-dependent fields of an entry: its type, kind or library, configuration, trigger hash, schema version and
/// id.
#[derive(Clone, Debug)]
struct Form {
    entry_type: EntryType,
    kind: String,
    library: (String, String),
    configuration: Option<String>,
    trigger_hash: Option<String>,
    schema_version: u64,
    id: Option<String>,
}

/// Inputs and outputs, each with its sensitive paths.
#[derive(Clone, Debug)]
struct Data {
    inputs: Option<(Properties, Vec<String>)>,
    outputs: Option<(Properties, Vec<String>)>,
}

/// The boolean flags of an entry.
#[derive(Clone, Debug)]
struct Marks {
    protect: bool,
    external: bool,
    retain_on_delete: bool,
    pending_replacement: bool,
    tainted: bool,
}

/// The remaining fields of an entry: errors, times, and fields of other tools.
#[derive(Clone, Debug)]
struct Rest {
    init_errors: Vec<String>,
    created: Option<Timestamp>,
    modified: Option<Timestamp>,
    extensions: JsonMap,
    unknown: JsonMap,
}

impl Content {
    /// Returns whether the resource is marked for replacement.
    pub(super) fn is_pending_replacement(&self) -> bool {
        self.marks.pending_replacement
    }

    /// Writes the content into an entry.
    pub(super) fn fill(self, entry: &mut Entry) {
        let Self {
            form,
            data,
            marks,
            rest,
        } = self;
        entry.entry_type = form.entry_type;
        if form.entry_type == EntryType::LibraryCall {
            (*entry.library, *entry.library_type) = (Some(form.library.0), Some(form.library.1));
        } else {
            (entry.kind, entry.id) = (Some(form.kind), form.id);
        }
        entry.configuration = form.configuration.into();
        entry.trigger_hash = form.trigger_hash.into();
        entry.schema_version = form.schema_version;
        if let Some((inputs, secrets)) = data.inputs {
            (entry.inputs, entry.sensitive_inputs) = (Some(inputs), secrets);
        }
        if let Some((outputs, secrets)) = data.outputs {
            (entry.outputs, entry.sensitive_outputs) = (Some(outputs), secrets);
        }
        entry.protect = marks.protect;
        entry.external = marks.external;
        entry.retain_on_delete = marks.retain_on_delete;
        entry.pending_replacement = marks.pending_replacement;
        entry.tainted = marks.tainted;
        entry.init_errors = rest.init_errors;
        entry.created = rest.created;
        entry.modified = rest.modified;
        entry.extensions = rest.extensions;
        *entry.unknown = rest.unknown;
    }
}

pub(super) fn contents() -> impl Strategy<Value = Content> {
    let data = (properties(), properties()).prop_map(|(inputs, outputs)| Data { inputs, outputs });
    (forms(), data, marks(), rests()).prop_map(|(form, data, marks, rest)| Content {
        form,
        data,
        marks,
        rest,
    })
}

/// Generates timestamps in several spellings.
pub(super) fn timestamps() -> impl Strategy<Value = Timestamp> {
    select(vec![
        "2026-01-01T00:00:00Z",
        "2026-02-28T23:59:59.123456789Z",
        "2025-12-31T12:00:00.000+02:00",
    ])
    .prop_map(Timestamp::new)
}

/// Generates fields that this build doesn't know.
pub(super) fn unknown_fields() -> impl Strategy<Value = JsonMap> {
    btree_map("x-[a-c]{1,2}", json_values(), 0..2).prop_map(JsonMap::from)
}

/// Generates extensions of other systems.
pub(super) fn extensions() -> impl Strategy<Value = JsonMap> {
    let object = json_objects().prop_map(|(object, _)| object.json().clone());
    btree_map(
        select(vec!["terraform", "pulumi"]).prop_map(str::to_owned),
        object,
        0..2,
    )
    .prop_map(JsonMap::from)
}

/// Returns sorted sensitive paths that select members of an object by name or by pointer. `names` contains the members;
/// each pick selects one of them, and a pointer if its flag is true.
pub(super) fn secrets(names: &[String], picks: &[(Index, bool)]) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    let mut secrets: Vec<String> = picks
        .iter()
        .map(|(pick, by_pointer)| {
            let name = pick.get(names);
            if *by_pointer || name.starts_with('/') {
                format!("/{}", name.replace('~', "~0").replace('/', "~1"))
            } else {
                name.clone()
            }
        })
        .collect();
    secrets.sort();
    secrets.dedup();
    secrets
}

fn forms() -> impl Strategy<Value = Form> {
    let entry_type = prop_oneof![
        6 => Just(EntryType::Leaf),
        1 => Just(EntryType::LibraryCall),
        1 => Just(EntryType::Action),
    ];
    let version = prop_oneof![3 => Just(0), 1 => 1..4_u64, 1 => Just(u64::MAX)];
    (
        entry_type,
        "[a-c]{1,3}",
        ("[a-c]{1,2}", "[A-C]{1,2}"),
        option::weighted(0.1, keys()),
        option::weighted(0.1, "[0-9a-f]{4}"),
        version,
        option::of("i-[0-9a-f]{1,3}"),
    )
        .prop_map(
            |(entry_type, kind, library, configuration, trigger_hash, schema_version, id)| Form {
                entry_type,
                kind,
                library,
                configuration: configuration.filter(|name| !name.is_empty()),
                trigger_hash,
                schema_version,
                id,
            },
        )
}

fn properties() -> impl Strategy<Value = Option<(Properties, Vec<String>)>> {
    let picks = vec((any::<Index>(), any::<bool>()), 0..3);
    option::of((json_objects(), picks).prop_map(|((object, names), picks)| (object, secrets(&names, &picks))))
}

fn marks() -> impl Strategy<Value = Marks> {
    let rarely = || prop::bool::weighted(0.15);
    (rarely(), rarely(), rarely(), rarely(), rarely()).prop_map(
        |(protect, external, retain_on_delete, pending_replacement, tainted)| Marks {
            protect,
            external,
            retain_on_delete,
            pending_replacement: pending_replacement && !external,
            tainted: tainted && !external,
        },
    )
}

fn rests() -> impl Strategy<Value = Rest> {
    (
        vec("[ -~]{1,8}", 0..2),
        option::of(timestamps()),
        option::of(timestamps()),
        extensions(),
        unknown_fields(),
    )
        .prop_map(|(init_errors, created, modified, extensions, unknown)| Rest {
            init_errors,
            created,
            modified,
            extensions,
            unknown,
        })
}

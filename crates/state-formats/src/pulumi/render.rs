//! Writes a snapshot as the compact text of a Pulumi document, in pieces.

use super::envelope::{self, Declarations};
use super::facts::{EXTENSION, EntryFacts, Side, StateFacts, not_exportable};
use super::field::{self, FIELDS, FieldClass};
use super::frame::{self, Piece, Placeholder};
use super::{pending, resolve, urn, value};
use crate::error::Result;
use state_core::json::{ArrayWriter, ObjectWriter};
use state_core::{Dependency, Entry, EntryType, Json, Properties, Snapshot};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

/// Receives the text in pieces.
type Sink<'o> = dyn FnMut(&str) + 'o;

/// Writes the whole document of a snapshot.
pub(super) fn write(snapshot: &Snapshot, facts: &StateFacts, out: &mut Sink<'_>) -> Result<()> {
    let declared = envelope::declared(snapshot, facts)?;
    let plain;
    let frame = match &facts.frame {
        Some(frame) => frame,
        None => {
            plain = frame::plain(facts.version.is_none());
            &plain
        }
    };
    let writer = Writer {
        snapshot,
        facts,
        declared,
    };
    writer.frame(frame, out)
}

struct Writer<'s> {
    snapshot: &'s Snapshot,
    facts: &'s StateFacts,
    declared: Declarations,
}

impl Writer<'_> {
    fn frame(&self, frame: &str, out: &mut Sink<'_>) -> Result<()> {
        let mut last = "";
        for piece in frame::pieces(frame) {
            match piece {
                Piece::Text("") => {}
                Piece::Text(text) => {
                    out(text);
                    last = text;
                }
                Piece::Placeholder(placeholder) => {
                    if self.placeholder(placeholder, last.ends_with('{'), out)? {
                        last = "]";
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the text for a placeholder. Returns false if the text is empty.
    fn placeholder(&self, placeholder: Placeholder, is_first: bool, out: &mut Sink<'_>) -> Result<bool> {
        let (entries, operations) = (&self.snapshot.entries, &self.snapshot.pending_operations);
        let member = |key: &str| format!("{}\"{key}\":", if is_first { "" } else { "," });
        match placeholder {
            Placeholder::Version => out(&self.declared.version.unwrap_or_default().to_string()),
            Placeholder::Features => out(&frame::features(&self.features())),
            Placeholder::MaybeFeatures if self.declared.more.is_empty() => return Ok(false),
            Placeholder::MaybeFeatures => {
                out(&member("features"));
                out(&frame::features(&self.features()));
            }
            Placeholder::ResourcesOrNull if entries.is_empty() => out("null"),
            Placeholder::MaybeResources if entries.is_empty() => return Ok(false),
            Placeholder::Resources | Placeholder::ResourcesOrNull => self.resources(out)?,
            Placeholder::MaybeResources => {
                out(&member("resources"));
                self.resources(out)?;
            }
            Placeholder::OperationsOrNull if operations.is_empty() => out("null"),
            Placeholder::MaybeOperations if operations.is_empty() => return Ok(false),
            Placeholder::Operations | Placeholder::OperationsOrNull => self.operations(out)?,
            Placeholder::MaybeOperations => {
                out(&member("pending_operations"));
                self.operations(out)?;
            }
            Placeholder::LatestOrNull if entries.is_empty() && operations.is_empty() => out("null"),
            Placeholder::MaybeLatest if entries.is_empty() && operations.is_empty() => return Ok(false),
            Placeholder::LatestOrNull => self.frame(&frame::empty_deployment(), out)?,
            Placeholder::MaybeLatest => {
                out(&member("latest"));
                self.frame(&frame::empty_deployment(), out)?;
            }
        }
        Ok(true)
    }

    /// The original features in their order. If the snapshot needs more features, all are sorted, as Pulumi writes
    /// them.
    fn features(&self) -> Vec<String> {
        let (known, more) = (&self.facts.features, &self.declared.more);
        if more.is_empty() {
            return known.clone();
        }
        let all: BTreeSet<_> = known.iter().chain(more).cloned().collect();
        all.into_iter().collect()
    }

    fn resources(&self, out: &mut Sink<'_>) -> Result<()> {
        let has_outputs = self.facts.stack_outputs || !self.snapshot.outputs.is_empty();
        let root = resolve::root(&self.snapshot.entries).filter(|_| has_outputs);
        if root.is_none() && !self.snapshot.outputs.is_empty() {
            let reason = "the stack has outputs, but no root stack resource that could hold them in Pulumi";
            return Err(not_exportable("the snapshot", reason));
        }
        let mut text = String::from("[");
        for (index, entry) in self.snapshot.entries.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let outputs = (root == Some(index)).then(|| resolve::root_outputs(self.snapshot));
            resource(entry, outputs, &mut text)?;
            out(&text);
            text.clear();
        }
        text.push(']');
        out(&text);
        Ok(())
    }

    fn operations(&self, out: &mut Sink<'_>) -> Result<()> {
        let mut text = String::new();
        let mut array = ArrayWriter::new(&mut text);
        for operation in &self.snapshot.pending_operations {
            let kept = self.facts.operations.get(&operation.id);
            pending::write(operation, kept, self.snapshot, array.element())?;
        }
        array.finish();
        out(&text);
        Ok(())
    }
}

/// Writes an entry as a resource; `outputs`, if given, replaces the outputs of the entry.
pub(super) fn resource(entry: &Entry, outputs: Option<Properties>, out: &mut String) -> Result<()> {
    check(entry)?;
    let facts: EntryFacts = EXTENSION.of_entry(entry)?.unwrap_or_default();
    let outputs = outputs
        .map(Cow::Owned)
        .or(entry.outputs.as_ref().map(Cow::Borrowed));
    let mut members = Members {
        entry,
        facts: &facts,
        outputs: outputs.as_deref(),
        object: ObjectWriter::new(out),
    };
    let unknown = members.unknown();
    let standard = FIELDS.iter().map(|(key, _)| *key).chain(unknown);
    let in_order: HashSet<&str> = facts.order.iter().map(String::as_str).collect();
    for key in &facts.order {
        members.write(key)?;
    }
    for key in standard.filter(|key| !in_order.contains(key)) {
        members.write(key)?;
    }
    members.object.finish();
    Ok(())
}

/// Refuses an entry that Pulumi can't represent.
fn check(entry: &Entry) -> Result<()> {
    let refuse = |reason: &str| Err(not_exportable(entry.key().to_string(), reason));
    if !urn::is_urn(entry.address.as_str()) {
        return refuse("its address isn't a URN");
    }
    if entry.entry_type == EntryType::Action {
        return refuse("Pulumi has resources only, no actions");
    }
    let is_group = |to: &Dependency| matches!(to, Dependency::Group(_));
    if entry.references().any(|reference| is_group(&reference.to)) {
        return refuse("it depends on a group, which Pulumi can't represent");
    }
    if entry
        .provider
        .as_ref()
        .is_some_and(|provider| provider.id.is_none())
    {
        return refuse("its provider reference has no id, which Pulumi requires");
    }
    Ok(())
}

struct Members<'a> {
    entry: &'a Entry,
    facts: &'a EntryFacts,
    outputs: Option<&'a Properties>,
    object: ObjectWriter<'a>,
}

impl<'a> Members<'a> {
    /// Names of the fields that this build doesn't know, sorted.
    fn unknown(&self) -> BTreeSet<&'a str> {
        let facts = self.facts;
        let keys = facts.rest.keys().chain(facts.texts.keys());
        keys.map(String::as_str)
            .filter(|key| field::place(key).0 == FIELDS.len())
            .collect()
    }

    fn write(&mut self, key: &str) -> Result<()> {
        let facts = self.facts;
        if field::place(key).1 != FieldClass::Model {
            let kept = facts.fields.get(key).or_else(|| facts.rest.get(key));
            let text = kept.map(Json::as_str);
            if let Some(text) = text.or_else(|| facts.texts.get(key).map(String::as_str)) {
                self.object.raw(key, text);
            }
            return Ok(());
        }
        let side = match key {
            "inputs" => Some((Side::Inputs, self.entry.inputs.as_ref())),
            "outputs" => Some((Side::Outputs, self.outputs)),
            _ => None,
        };
        if let Some((side, Some(properties))) = side {
            let wrapped = value::wrapped(properties, &facts.opened, side)?;
            self.object.raw(key, &wrapped);
            return Ok(());
        }
        let ours = field::value(self.entry, facts, key);
        let kept = facts.kept.get(key).filter(|kept| kept.ours == ours);
        if let Some(value) = kept.map_or(ours.as_ref(), |kept| kept.was.as_ref()) {
            self.object.raw(key, value.as_str());
        }
        Ok(())
    }
}

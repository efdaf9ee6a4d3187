//! Seals and opens the values of one entry.

use super::value::{OpenedValue, Origin};
use super::{OpaquePaths, Sealer};
use crate::error::{Error, Result};
use crate::place::{Owner, Place, Side};
use crate::spans::{SecretSpan, fields, has_member, step};
use state_core::json::JsonMap;
use state_core::sensitive::{
    EntrySecrets, SecretStrings, covered_spans, entry_has_sensitive, spans_with_strings,
};
use state_core::{Entry, Json, Properties, SharedEntry, Uid, sealed};
use std::collections::BTreeMap;

/// A decrypted entry, and which of its values were sealed: these values are sealed again.
struct OpenEntry {
    entry: Entry,
    inputs: Vec<SecretSpan>,
    outputs: Vec<SecretSpan>,
    extensions: BTreeMap<String, Vec<SecretSpan>>,
    id: bool,
    init_errors: Vec<bool>,
}

impl Sealer {
    /// Seals the secrets of an entry.
    ///
    /// # Errors
    /// [`Error::NoUid`] for an entry without a uid, unless the policy is plaintext; [`Error::SealedUnder`],
    /// [`Error::NotAuthentic`] or [`Error::Malformed`] for a value that is already sealed and can't be decrypted, for
    /// example because it was sealed under another key or for another place.
    pub fn seal_entry(&self, entry: &Entry) -> Result<Entry> {
        if self.values.is_plaintext() {
            // Nothing is sealed under the plaintext policy, but a value that is already sealed must not be stored in a
            // plaintext stack. Under this policy, `open_entry` refuses a sealed value instead of opening it.
            return self.open_entry(entry);
        }
        let owner = owner(entry)?;
        let open = self.open_parts(entry, owner, Origin::Caller)?;
        self.seal_parts(open, owner)
    }

    /// Opens all sealed values of an entry.
    ///
    /// # Errors
    /// [`Error::SealedUnder`], [`Error::NotAuthentic`] or [`Error::Malformed`] for a sealed value that can't be
    /// decrypted; [`Error::Plain`] for a marked value that is not sealed; [`Error::NoUid`] for an entry without a
    /// uid, unless the policy is plaintext.
    pub fn open_entry(&self, entry: &Entry) -> Result<Entry> {
        let owner = match owner(entry) {
            // A plaintext stack binds no value to an entry. The owner is named in errors only.
            Err(Error::NoUid { .. }) if self.values.is_plaintext() => Owner::Entry {
                uid: Uid::from_bytes([0; 16]),
                address: &entry.address,
            },
            owner => owner?,
        };
        Ok(self.open_parts(entry, owner, Origin::Store)?.entry)
    }

    /// As [`Self::seal_entry`]. An entry that doesn't change stays shared.
    ///
    /// # Errors
    /// As [`Self::seal_entry`].
    pub fn seal_shared(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        // As for opening. Unknown fields are sealed without a mark.
        let has_secrets =
            self.values.seals_all() || !entry.unknown.is_empty() || self.has_opaque_parts(entry);
        match !has_secrets && is_open(entry) {
            true => Ok(SharedEntry::clone(entry)),
            false => Self::shared(entry, |entry| self.seal_entry(entry)),
        }
    }

    /// Whether the extensions of an entry contain a part that is sealed without a mark.
    fn has_opaque_parts(&self, entry: &Entry) -> bool {
        let has_opaque_part = |(system, json): (&str, &Json)| match self.opaque.get(system) {
            Some(opaque) => {
                let mut pointers = opaque.in_entry.iter();
                pointers.any(|pointer| json.view().pointer(pointer).is_some())
            }
            None => true,
        };
        entry.extensions.iter().any(has_opaque_part)
    }

    /// As [`Self::open_entry`]. An entry that doesn't change stays shared.
    pub(super) fn open_shared(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        // Most entries of a large state hold no secret, and opening one takes much longer than the search for a sealed value.
        match is_open(entry) {
            true => Ok(SharedEntry::clone(entry)),
            false => Self::shared(entry, |entry| self.open_entry(entry)),
        }
    }

    /// Applies a change to a shared entry. An entry that doesn't change stays shared.
    pub(super) fn shared(
        entry: &SharedEntry,
        change: impl FnOnce(&Entry) -> Result<Entry>,
    ) -> Result<SharedEntry> {
        let changed = change(entry)?;
        Ok(if changed == **entry {
            SharedEntry::clone(entry)
        } else {
            changed.into()
        })
    }

    fn open_parts(&self, entry: &Entry, owner: Owner<'_>, from: Origin) -> Result<OpenEntry> {
        let mut open = OpenEntry {
            entry: entry.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            extensions: BTreeMap::new(),
            id: false,
            init_errors: Vec::new(),
        };
        let (paths, place) = (&entry.sensitive_inputs, Place::new(owner, Side::Inputs));
        (open.entry.inputs, open.inputs) =
            self.open_properties(entry.inputs.as_ref(), paths, &place, from)?;
        let (paths, place) = (&entry.sensitive_outputs, Place::new(owner, Side::Outputs));
        (open.entry.outputs, open.outputs) =
            self.open_properties(entry.outputs.as_ref(), paths, &place, from)?;
        (open.entry.extensions, open.extensions) =
            self.open_map(&entry.extensions, &Place::new(owner, Side::Extensions), from)?;
        let (unknown, _) = self.open_map(&entry.unknown, &Place::new(owner, Side::Unknown), from)?;
        open.entry.unknown = unknown.into();
        if let Some(id) = &entry.id {
            let (id, was_sealed) = self
                .values
                .open_text(id, &Place::new(owner, Side::Id), "", from)?;
            (open.entry.id, open.id) = (Some(id), was_sealed);
        }
        let place = Place::new(owner, Side::InitErrors);
        for (index, error) in entry.init_errors.iter().enumerate() {
            let (text, was_sealed) = self.values.open_text(error, &place, &format!("/{index}"), from)?;
            open.entry.init_errors[index] = text;
            open.init_errors.push(was_sealed);
        }
        Ok(open)
    }

    fn open_properties(
        &self,
        properties: Option<&Properties>,
        paths: &[String],
        place: &Place<'_>,
        from: Origin,
    ) -> Result<(Option<Properties>, Vec<SecretSpan>)> {
        let Some(properties) = properties else {
            return Ok((None, Vec::new()));
        };
        let sealed = properties.json();
        let OpenedValue { json, pinned } = match from {
            Origin::Caller => self.values.open(sealed, place, "", from)?,
            Origin::Store => {
                let marked = |paths: &[String]| {
                    let covered = covered_spans(sealed, paths, &SecretStrings::default());
                    without_names(sealed, covered)
                };
                let json = self.values.open_checked(sealed, paths, marked, place, "")?;
                let pinned = Vec::new();
                OpenedValue { json, pinned }
            }
        };
        let properties = Properties::new(json).ok_or_else(|| Error::Malformed {
            place: place.at(""),
            reason: "the decrypted value is not an object",
        })?;
        Ok((Some(properties), pinned))
    }

    fn seal_parts(&self, open: OpenEntry, owner: Owner<'_>) -> Result<Entry> {
        let EntrySecrets {
            strings: secrets,
            inputs,
            outputs,
        } = match self.values.seals_all() {
            // Each field is sealed, so only the strings are needed.
            true => EntrySecrets {
                strings: SecretStrings::of_entry(&open.entry),
                ..EntrySecrets::default()
            },
            false => EntrySecrets::of(&open.entry),
        };
        let has_marks =
            entry_has_sensitive(&open.entry) || !open.inputs.is_empty() || !open.outputs.is_empty();
        let mut entry = open.entry;
        let place = Place::new(owner, Side::Inputs);
        entry.inputs = self.seal_properties(entry.inputs.as_ref(), inputs, open.inputs, &place)?;
        let place = Place::new(owner, Side::Outputs);
        entry.outputs = self.seal_properties(entry.outputs.as_ref(), outputs, open.outputs, &place)?;
        let opaque = |of: &OpaquePaths| of.in_entry.clone();
        let place = Place::new(owner, Side::Extensions);
        entry.extensions =
            self.seal_extensions(&entry.extensions, &open.extensions, opaque, &secrets, &place)?;
        entry.unknown = self
            .seal_unknown(&entry.unknown, &Place::new(owner, Side::Unknown))?
            .into();
        if let Some(id) = &entry.id {
            let place = Place::new(owner, Side::Id);
            let is_secret = open.id || secrets.occur_in(id);
            entry.id = Some(self.values.seal_text(id, &place, "", is_secret)?);
        }
        let place = Place::new(owner, Side::InitErrors);
        // An init error is free text and may quote a secret in another form than the marked string, so marks on any
        // value of the entry seal all of its errors.
        let all = self.values.seals_all() || has_marks;
        for (index, (error, was_sealed)) in entry.init_errors.iter_mut().zip(open.init_errors).enumerate() {
            let path = format!("/{index}");
            *error = self.values.seal_text(error, &place, &path, all || was_sealed)?;
        }
        Ok(entry)
    }

    fn seal_properties(
        &self,
        properties: Option<&Properties>,
        covered: Vec<SecretSpan>,
        pinned: Vec<SecretSpan>,
        place: &Place<'_>,
    ) -> Result<Option<Properties>> {
        let Some(properties) = properties else {
            return Ok(None);
        };
        let json = properties.json();
        let mut spans = match self.values.seals_all() {
            true => fields(json),
            false => without_names(json, covered),
        };
        spans.extend(pinned);
        let sealed = self.values.seal(json, spans, place, "")?;
        Ok(Properties::new(sealed))
    }

    /// Seals the extensions of each system. If the system has declared its opaque parts, these parts and copies of
    /// secrets are sealed; otherwise, and under the policy `all`, the whole extension is sealed.
    pub(super) fn seal_extensions(
        &self,
        extensions: &JsonMap,
        pinned: &BTreeMap<String, Vec<SecretSpan>>,
        pointers: impl Fn(&OpaquePaths) -> Vec<String>,
        secrets: &SecretStrings,
        place: &Place<'_>,
    ) -> Result<JsonMap> {
        let mut sealed = JsonMap::new();
        for (system, json) in extensions.iter() {
            let mut spans = pinned.get(system).cloned().unwrap_or_default();
            match self.opaque.get(system).filter(|_| !self.values.seals_all()) {
                Some(opaque) => {
                    let there = pointers(opaque).into_iter().filter_map(|pointer| {
                        let view = json.view().pointer(&pointer)?;
                        Some(SecretSpan::of(pointer, view))
                    });
                    spans.extend(there);
                    spans.extend(spans_with_strings(json, secrets));
                }
                None => spans.push(SecretSpan::of(String::new(), json.view())),
            }
            let json = self.values.seal(json, spans, place, &step(system))?;
            sealed.insert(system, json);
        }
        Ok(sealed)
    }
}

/// Replaces the span of a whole JSON object, such as the inputs, by the spans of its fields, because field names are not
/// secret. Other spans stay. So does the whole of an object that has a member `$sealed`: it is a sealed value, or user
/// data that a reader would mistake for a sealed value.
fn without_names(json: &Json, covered: Vec<SecretSpan>) -> Vec<SecretSpan> {
    match covered.as_slice() {
        [whole] if whole.pointer.is_empty() && json.view().get(sealed::MEMBER).is_none() => fields(json),
        _ => covered,
    }
}

/// Whether opening an entry neither changes it nor fails: no part of it looks sealed, and no mark requires a part to be sealed.
fn is_open(entry: &Entry) -> bool {
    // Without `..`, so that the compiler asks whether a new field is sealed. One that is must be added to `open_parts` and
    // `seal_parts` too.
    let Entry {
        uid,
        inputs,
        outputs,
        sensitive_inputs,
        sensitive_outputs,
        id,
        init_errors,
        extensions,
        unknown,
        address: _,
        deposed: _,
        entry_type: _,
        kind: _,
        schema_version: _,
        group: _,
        library: _,
        library_type: _,
        configuration: _,
        trigger_hash: _,
        depends_on: _,
        parent: _,
        provider: _,
        property_dependencies: _,
        deleted_with: _,
        replace_with: _,
        protect: _,
        external: _,
        retain_on_delete: _,
        pending_replacement: _,
        tainted: _,
        created: _,
        modified: _,
    } = entry;
    let sides = [inputs, outputs].into_iter().flatten();
    let mut values = sides
        .map(Properties::json)
        .chain(extensions.values())
        .chain(unknown.values());
    let mut texts = id.iter().chain(init_errors);
    uid.is_some()
        && sensitive_inputs.is_empty()
        && sensitive_outputs.is_empty()
        && !values.any(has_member)
        && !texts.any(|text| text.starts_with(sealed::TEXT_PREFIX))
}

fn owner(entry: &Entry) -> Result<Owner<'_>> {
    let uid = entry.uid.ok_or_else(|| Error::NoUid {
        entry: entry.key().to_string(),
    })?;
    Ok(Owner::Entry {
        uid,
        address: &entry.address,
    })
}

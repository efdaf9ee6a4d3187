//! Seals and opens maps of values: stack outputs, extensions, unknown fields.

use super::Sealer;
use super::value::{OpenedValue, Origin, ValueSealer};
use crate::error::Result;
use crate::place::{Owner, Place, Side};
use crate::spans::{SecretSpan, step};
use state_core::Json;
use state_core::json::JsonMap;
use state_core::mutation::StackOutputs;
use state_core::sensitive::{OutputMarks, SecretStrings};
use std::collections::BTreeMap;

type SealedParts = BTreeMap<String, Vec<SecretSpan>>;

impl Sealer {
    /// Seals the outputs of a stack as the policy requires.
    ///
    /// # Errors
    /// [`SealedUnder`](crate::Error::SealedUnder), [`NotAuthentic`](crate::Error::NotAuthentic) or
    /// [`Malformed`](crate::Error::Malformed) for a value that is already sealed and can't be decrypted, for example
    /// because it was sealed under another key or for another place.
    pub fn seal_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
        self.values.seal_outputs(outputs, Owner::Stack)
    }

    /// Opens all sealed outputs of a stack.
    ///
    /// # Errors
    /// [`SealedUnder`](crate::Error::SealedUnder), [`NotAuthentic`](crate::Error::NotAuthentic) or
    /// [`Malformed`](crate::Error::Malformed) for a value that can't be decrypted; [`Plain`](crate::Error::Plain) for
    /// a marked output that is not sealed.
    pub fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
        self.values.open_outputs(outputs, Owner::Stack)
    }

    pub(super) fn open_map(
        &self,
        map: &JsonMap,
        place: &Place<'_>,
        from: Origin,
    ) -> Result<(JsonMap, SealedParts)> {
        self.values.open_map(map.iter(), place, from)
    }

    /// Seals every field as a whole.
    pub(super) fn seal_unknown(&self, map: &JsonMap, place: &Place<'_>) -> Result<JsonMap> {
        let sealed = map.iter().map(|(field, json)| {
            let whole = SecretSpan::of(String::new(), json.view());
            Ok((field, self.values.seal(json, vec![whole], place, &step(field))?))
        });
        sealed.collect()
    }
}

impl ValueSealer {
    pub(crate) fn seal_outputs(&self, outputs: &StackOutputs, owner: Owner<'_>) -> Result<StackOutputs> {
        let place = Place::new(owner, Side::Outputs);
        let outputs_by_name = outputs.values.iter().map(|(name, json)| (name.as_str(), json));
        let (values, mut pinned): (BTreeMap<String, Json>, _) =
            self.open_map(outputs_by_name, &place, Origin::Caller)?;
        let secrets = SecretStrings::of_output_map(&values, &outputs.sensitive);
        let marks = OutputMarks::of(&values, &outputs.sensitive);
        let mut sealed = BTreeMap::new();
        for (name, json) in &values {
            let mut spans = pinned.remove(name).unwrap_or_default();
            if self.seals_all() {
                spans.push(SecretSpan::of(String::new(), json.view()));
            } else {
                spans.extend(marks.spans(name, &secrets));
            }
            let json = self.seal(json, spans, &place, &step(name))?;
            sealed.insert(name.clone(), json);
        }
        Ok(StackOutputs {
            values: sealed,
            sensitive: outputs.sensitive.clone(),
        })
    }

    pub(crate) fn open_outputs(&self, outputs: &StackOutputs, owner: Owner<'_>) -> Result<StackOutputs> {
        let place = Place::new(owner, Side::Outputs);
        let none = SecretStrings::default();
        let marks = OutputMarks::of(&outputs.values, &outputs.sensitive);
        let mut values = BTreeMap::new();
        for (name, json) in &outputs.values {
            let marked = |paths: &[String]| OutputMarks::of(&outputs.values, paths).spans(name, &none);
            let json = self.open_checked(json, &marks.of_output(name), marked, &place, &step(name))?;
            values.insert(name.clone(), json);
        }
        Ok(StackOutputs {
            values,
            sensitive: outputs.sensitive.clone(),
        })
    }

    fn open_map<'m, M: FromIterator<(String, Json)>>(
        &self,
        map: impl Iterator<Item = (&'m str, &'m Json)>,
        place: &Place<'_>,
        from: Origin,
    ) -> Result<(M, SealedParts)> {
        let mut all = SealedParts::new();
        let values = map.map(|(name, json)| {
            let OpenedValue { json, pinned } = self.open(json, place, &step(name), from)?;
            if !pinned.is_empty() {
                all.insert(name.to_owned(), pinned);
            }
            Ok((name.to_owned(), json))
        });
        let values = values.collect::<Result<M>>()?;
        Ok((values, all))
    }
}

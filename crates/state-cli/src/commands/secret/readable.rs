//! The part of the report of `secret seal` about secrets that stay readable.

use super::findings::{Examination, Place};
use crate::invocation::quoted;
use crate::marks::{count, first, readable_in_names};
use crate::render::Page;
use serde::Serialize;

/// How many places a line names.
const NAMED: usize = 5;

/// Secrets that are readable by everyone who can read the store.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ReadableSecrets {
    /// Places of copies of sensitive values.
    readable_copies: Vec<String>,
    /// Places of other values that look like secrets.
    readable_suspects: Vec<String>,
    /// Fields and outputs whose names contain a secret.
    readable_names: Vec<String>,
    /// Resources whose address, id, errors or names of fields contain a secret.
    sensitive_names: Vec<String>,
    /// The arguments that select the copies for another call of `secret seal`.
    #[serde(skip)]
    selection: String,
}

impl ReadableSecrets {
    pub(super) fn of(examination: &Examination) -> Self {
        let places = |is_wanted: &dyn Fn(&Place, &str) -> bool| -> Vec<&Place> {
            let wanted = examination
                .exposed()
                .filter(|(place, finding)| is_wanted(place, finding.rule));
            wanted.map(|(place, _)| place).collect()
        };
        let texts = |places: &[&Place]| places.iter().map(ToString::to_string).collect();
        let copies = places(&|_, rule| rule == "copy");
        let is_short = copies.len() <= NAMED && copies.iter().all(|place| place.is_complete());
        let named = || copies.iter().map(|place| quoted(&place.to_string()));
        Self {
            readable_copies: texts(&copies),
            readable_suspects: texts(&places(&|place, rule| !place.is_name && rule != "copy")),
            readable_names: texts(&places(&|place, _| place.is_name)),
            sensitive_names: examination.unmarked.clone(),
            selection: match is_short {
                true => named().collect::<Vec<_>>().join(" "),
                false => "--all".to_owned(),
            },
        }
    }

    /// Prints what stays readable, with the command that encrypts it. Prints nothing if there is nothing.
    pub(super) fn print(&self, page: &mut Page) {
        if !self.readable_copies.is_empty() {
            let copies = count(
                self.readable_copies.len(),
                "copy of a sensitive value stays",
                "copies of sensitive values stay",
            );
            let places = first(NAMED, &self.readable_copies, ", ");
            page.line(format_args!("{copies} readable: {places}"));
            page.hint(&format!("encrypt with `statectl secret seal {}`", self.selection));
        }
        if !self.readable_suspects.is_empty() {
            let values = count(
                self.readable_suspects.len(),
                "other value that looks like a secret stays",
                "other values that look like secrets stay",
            );
            page.line(format_args!("{values} readable"));
            page.hint("list with `statectl secret scan`, encrypt with `statectl secret seal --all`");
        }
        if !self.readable_names.is_empty() {
            let names = count(
                self.readable_names.len(),
                "name of a field contains a secret",
                "names of fields contain secrets",
            );
            let places = first(NAMED, &self.readable_names, ", ");
            page.line(format_args!("{names} and can't be encrypted: {places}"));
        }
        if let Some(resources) = readable_in_names(NAMED, &self.sensitive_names) {
            page.line(resources);
        }
    }
}

//! What `find` looks for, and where it finds it. Secrets are never looked at.

use crate::entry::marks;
use crate::glob;
use crate::settings::HIDE;
use clap::ValueEnum;
use state_core::diff::properties;
use state_core::{Entry, PendingOperation};

/// One thing that an entry must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    place: Place,
    pattern: String,
}

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    Address,
    Kind,
    Id,
    Provider,
    Uid,
    UpdateEnd,
    /// Everywhere, values included; anywhere inside them.
    Text,
}

impl Term {
    /// `kind:aws_*` looks at kinds only, and the pattern is the whole kind; a word without a known place in front is
    /// looked for everywhere.
    pub(crate) fn parse(word: &str) -> Self {
        let placed = word
            .split_once(':')
            .and_then(|(name, pattern)| Some((Place::from_str(name, false).ok()?, pattern)));
        let (place, pattern) = placed.unwrap_or((Place::Text, word));
        let pattern = pattern.to_lowercase();
        let pattern = match place {
            Place::Text => format!("*{pattern}*"),
            _ => pattern,
        };
        Self { place, pattern }
    }

    fn fits(&self, text: &str) -> bool {
        glob::matches(&self.pattern, &text.to_lowercase())
    }

    /// Where the entry has it: names of fields, or pointers to values.
    fn places(&self, found: &Found<'_>) -> Vec<String> {
        let entry = found.entry;
        let field = |name: &str, text: Option<&str>| {
            text.filter(|text| self.fits(text))
                .map(|_| name.to_owned())
                .into_iter()
                .collect::<Vec<String>>()
        };
        match self.place {
            Place::Address => field("address", Some(entry.address.as_str())),
            Place::Kind => field("kind", entry.kind.as_deref().or(entry.library_type.as_deref())),
            Place::Id => field("id", found.id.as_deref()),
            Place::Provider => field("provider", entry.provider.as_ref().map(|p| p.address.as_str())),
            Place::Uid => field("uid", entry.uid.map(|uid| uid.to_string()).as_deref()),
            Place::UpdateEnd => field("marks", found.marks.iter().copied().find(|mark| self.fits(mark))),
            Place::Text => self.anywhere(found),
        }
    }

    fn anywhere(&self, found: &Found<'_>) -> Vec<String> {
        let mut places = Vec::new();
        if self.fits(&found.entry.key().to_string()) {
            places.push("address".to_owned());
        }
        for property in properties(found.entry) {
            if property.value.is_sensitive() {
                continue;
            }
            let value = property.value.revealed();
            let text = value.view().as_str();
            if self.fits(text.as_deref().unwrap_or(value.as_str())) {
                let name = property.pointer.strip_prefix('/');
                places.push(name.unwrap_or(&property.pointer).to_owned());
            }
        }
        places
    }
}

struct Found<'a> {
    entry: &'a Entry,
    id: Option<String>,
    marks: Vec<&'static str>,
}

/// Where an entry has what the terms ask for; none unless it has all of them.
pub(crate) fn matches(terms: &[Term], entry: &Entry, pending: &[&PendingOperation]) -> Option<Vec<String>> {
    let found = Found {
        entry,
        // A secret id isn't found, not even by the word that stands in its place.
        id: HIDE.id(entry).filter(|shown| Some(shown) == entry.id.as_ref()),
        marks: marks(entry, pending),
    };
    let mut places = Vec::new();
    for term in terms {
        let there = term.places(&found);
        if there.is_empty() {
            return None;
        }
        places.extend(there);
    }
    places.sort();
    places.dedup();
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::{Term, matches};
    use state_core::{Entry, Json, Properties};

    fn sample() -> Entry {
        let mut entry = Entry::leaf("aws_instance.web".parse().unwrap(), "aws_instance");
        entry.id = Some("i-0abc".to_owned());
        entry.tainted = true;
        entry.outputs = Properties::new(
            Json::parse(r#"{"ami":"ami-17","ports":[80,443],"pw":"hunter22","note":"Blue Team"}"#).unwrap(),
        );
        entry.sensitive_outputs = vec!["pw".to_owned()];
        entry
    }

    fn found(query: &[&str]) -> Option<Vec<String>> {
        let terms: Vec<_> = query.iter().map(|word| Term::parse(word)).collect();
        matches(&terms, &sample(), &[])
    }

    #[test]
    fn a_term_with_a_place_is_a_pattern_for_all_of_it() {
        assert_eq!(found(&["kind:aws_*"]).unwrap(), ["kind"]);
        assert_eq!(found(&["id:i-*"]).unwrap(), ["id"]);
        assert_eq!(found(&["mark:tainted"]).unwrap(), ["marks"]);
        assert_eq!(found(&["kind:aws"]), None);
        assert_eq!(found(&["mark:protected"]), None);
    }

    #[test]
    fn a_plain_word_is_found_anywhere_whatever_its_case() {
        assert_eq!(found(&["blue"]).unwrap(), ["outputs/note"]);
        assert_eq!(found(&["443"]).unwrap(), ["outputs/ports/1"]);
        assert_eq!(found(&["WEB"]).unwrap(), ["address"]);
    }

    #[test]
    fn all_terms_must_be_there() {
        assert_eq!(found(&["kind:aws_*", "ami-17"]).unwrap(), ["kind", "outputs/ami"]);
        assert_eq!(found(&["kind:aws_*", "green"]), None);
    }

    #[test]
    fn a_word_with_an_unknown_place_is_text() {
        assert_eq!(Term::parse("urn:pulumi:x"), Term::parse("text:urn:pulumi:x"));
    }

    #[test]
    fn secrets_are_not_found() {
        assert_eq!(found(&["hunter22"]), None);
        let mut entry = sample();
        entry.id = Some("hunter22".to_owned());
        for query in ["id:hunter*", "hunter", "id:(sensitive)"] {
            assert_eq!(matches(&[Term::parse(query)], &entry, &[]), None, "{query}");
        }
    }
}

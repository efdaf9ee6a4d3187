//! Search terms of `find`, and how they match a resource. Sensitive values are never searched.

use crate::entry::marks;
use crate::glob;
use crate::settings::HIDE;
use clap::ValueEnum;
use state_core::diff::properties;
use state_core::{Entry, PendingOperation};

/// One condition that a resource must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    field: SearchField,
    pattern: String,
}

/// The part of a resource that a term searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchField {
    Address,
    Kind,
    Id,
    Provider,
    Uid,
    Mark,
    /// All fields and property values; the pattern may match any part of them.
    Text,
}

impl Term {
    /// Parses a term. `kind:aws_*` searches kinds only, and the pattern must match the whole kind. A word without a known
    /// field in front is searched in all fields.
    pub(crate) fn parse(word: &str) -> Self {
        let with_field = word
            .split_once(':')
            .and_then(|(name, pattern)| Some((SearchField::from_str(name, false).ok()?, pattern)));
        let (field, pattern) = with_field.unwrap_or((SearchField::Text, word));
        let pattern = pattern.to_lowercase();
        let pattern = match field {
            SearchField::Text => format!("*{pattern}*"),
            _ => pattern,
        };
        Self { field, pattern }
    }

    fn fits(&self, text: &str) -> bool {
        glob::matches(&self.pattern, &text.to_lowercase())
    }

    /// Where the resource matches the term: names of fields, or pointers to values.
    fn matching_fields(&self, found: &Searchable<'_>) -> Vec<String> {
        let entry = found.entry;
        let field = |name: &str, text: Option<&str>| {
            text.filter(|text| self.fits(text))
                .map(|_| name.to_owned())
                .into_iter()
                .collect::<Vec<String>>()
        };
        match self.field {
            SearchField::Address => field("address", Some(entry.address.as_str())),
            SearchField::Kind => field("kind", entry.kind.as_deref().or(entry.library_type.as_deref())),
            SearchField::Id => field("id", found.id.as_deref()),
            SearchField::Provider => field("provider", entry.provider.as_ref().map(|p| p.address.as_str())),
            SearchField::Uid => field("uid", entry.uid.map(|uid| uid.to_string()).as_deref()),
            SearchField::Mark => field("marks", found.marks.iter().copied().find(|mark| self.fits(mark))),
            SearchField::Text => self.anywhere(found),
        }
    }

    fn anywhere(&self, found: &Searchable<'_>) -> Vec<String> {
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

/// A resource with the fields that a search may see.
struct Searchable<'a> {
    entry: &'a Entry,
    id: Option<String>,
    marks: Vec<&'static str>,
}

/// The fields in which a resource matches the terms; none unless the resource matches all terms.
pub(crate) fn matches(terms: &[Term], entry: &Entry, pending: &[&PendingOperation]) -> Option<Vec<String>> {
    let found = Searchable {
        entry,
        // A secret id isn't searched, and neither is the placeholder that is shown instead of it.
        id: HIDE.id(entry).filter(|shown| Some(shown) == entry.id.as_ref()),
        marks: marks(entry, pending),
    };
    let mut places = Vec::new();
    for term in terms {
        let fields = term.matching_fields(&found);
        if fields.is_empty() {
            return None;
        }
        places.extend(fields);
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
    fn term_with_field_matches_the_whole_field() {
        assert_eq!(found(&["kind:aws_*"]).unwrap(), ["kind"]);
        assert_eq!(found(&["id:i-*"]).unwrap(), ["id"]);
        assert_eq!(found(&["mark:tainted"]).unwrap(), ["marks"]);
        assert_eq!(found(&["kind:aws"]), None);
        assert_eq!(found(&["mark:protected"]), None);
    }

    #[test]
    fn plain_word_matches_anywhere_ignoring_case() {
        assert_eq!(found(&["blue"]).unwrap(), ["outputs/note"]);
        assert_eq!(found(&["443"]).unwrap(), ["outputs/ports/1"]);
        assert_eq!(found(&["WEB"]).unwrap(), ["address"]);
    }

    #[test]
    fn all_terms_must_match() {
        assert_eq!(found(&["kind:aws_*", "ami-17"]).unwrap(), ["kind", "outputs/ami"]);
        assert_eq!(found(&["kind:aws_*", "green"]), None);
    }

    #[test]
    fn word_with_unknown_field_is_text() {
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

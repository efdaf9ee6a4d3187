//! Paths of module instances: `module.service["web"].module.database`.

use super::is_identifier;
use super::key::Key;
use std::fmt;

/// A module instance; the root has no steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::terraform) struct ModulePath {
    steps: Vec<(String, Option<Key>)>,
}

impl ModulePath {
    /// Reads a whole text; the empty one is the root.
    pub(in crate::terraform) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { steps: Vec::new() });
        }
        // What follows a step begins with a dot: lend it one.
        let dotted = format!("{text}.");
        let (path, rest) = Self::split_off(&dotted)?;
        rest.is_empty().then_some(path)
    }

    /// Reads the module path in front of a resource; gives what follows its dot as well.
    pub(in crate::terraform) fn split_off(text: &str) -> Option<(Self, &str)> {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some((name, key, after)) = split_step(rest)? {
            steps.push((name.to_owned(), key));
            rest = after;
        }
        Some((Self { steps }, rest))
    }

    /// What configuration calls the module.
    pub(in crate::terraform) fn without_keys(&self) -> String {
        let names = self.steps.iter().map(|(name, _)| format!("module.{name}"));
        names.collect::<Vec<_>>().join(".")
    }
}

/// One step, if the text begins with one; None if that is broken.
fn split_step(text: &str) -> Option<Option<(&str, Option<Key>, &str)>> {
    let Some(named) = text.strip_prefix("module.") else {
        return Some(None);
    };
    let Some(end) = named.find(['.', '[']) else {
        // `module.x` alone is a resource of type `module`.
        return Some(None);
    };
    let (name, rest) = named.split_at(end);
    let (key, rest) = if rest.starts_with('[') {
        let (key, rest) = Key::split_off(rest)?;
        (Some(key), rest)
    } else {
        (None, rest)
    };
    match rest.strip_prefix('.') {
        Some(rest) => is_identifier(name).then_some(Some((name, key, rest))),
        None => Some(None),
    }
}

impl fmt::Display for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, key)) in self.steps.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            write!(f, "module.{name}")?;
            key.iter().try_for_each(|key| key.fmt(f))?;
        }
        Ok(())
    }
}

//! Terraform's addresses: read, written the one canonical way, and stripped to what configuration calls them.
//!
//! The text is what `terraform state list` prints, keys quoted as HCL quotes them, so it is injective: another module
//! path, mode, type, name or key is another address.

mod key;
mod module;

#[cfg(test)]
mod tests;

pub(super) use key::Key;
pub(super) use module::ModulePath;

use std::fmt;

/// Managed or read only. Sorts as Terraform sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    Data,
    Managed,
}

impl Mode {
    /// The name in a state.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Managed => "managed",
        }
    }

    /// The mode of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Data, Self::Managed]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// A resource in one instance of its module. Sorts as Terraform sorts: by module, mode, type, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResourceAddress {
    /// The path of the module instance, canonical; empty for the root.
    pub(super) module: String,
    pub(super) mode: Mode,
    pub(super) kind: String,
    pub(super) name: String,
}

impl ResourceAddress {
    /// What configuration calls it: without the keys of its modules.
    pub(super) fn group(&self) -> String {
        let module = ModulePath::parse(&self.module).map(|path| path.without_keys());
        Self {
            module: module.unwrap_or_else(|| self.module.clone()),
            ..self.clone()
        }
        .to_string()
    }
}

impl fmt::Display for ResourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.module.is_empty() {
            write!(f, "{}.", self.module)?;
        }
        if self.mode == Mode::Data {
            f.write_str("data.")?;
        }
        write!(f, "{}.{}", self.kind, self.name)
    }
}

/// One instance of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InstanceAddress {
    pub(super) resource: ResourceAddress,
    /// Sorts as Terraform sorts: none, then numbers, then strings.
    pub(super) key: Option<Key>,
}

impl InstanceAddress {
    /// Reads what [`Display`](fmt::Display) writes. None if it is no address of a resource instance.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (module, rest) = ModulePath::split_off(text)?;
        let (mode, rest) = match rest.strip_prefix("data.") {
            // A managed resource may be of type `data`: then only a name follows.
            Some(data) if data.split('[').next()?.contains('.') => (Mode::Data, data),
            _ => (Mode::Managed, rest),
        };
        let (kind, rest) = rest.split_once('.')?;
        let end = rest.find('[').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let key = match rest {
            "" => None,
            _ => Some(Key::split_off(rest).filter(|(_, rest)| rest.is_empty())?.0),
        };
        let resource = ResourceAddress {
            module: module.to_string(),
            mode,
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        (is_identifier(kind) && is_identifier(name)).then_some(Self { resource, key })
    }
}

impl fmt::Display for InstanceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)?;
        self.key.iter().try_for_each(|key| key.fmt(f))
    }
}

/// Whether configuration could use it as a name. Wider than HCL outside ASCII, where only white space and what can't
/// be seen is refused.
pub(super) fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_part =
        |c: char| is_letter(c) && !c.is_whitespace() && !c.is_control() || c.is_ascii_digit() || c == '-';
    text.starts_with(is_letter) && text.chars().all(is_part)
}

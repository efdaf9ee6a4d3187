//! Parses and prints Terraform's resource addresses.
//!
//! The text form is the one of `terraform state list`, with keys quoted like HCL. The text form is injective: a
//! different module path, mode, type, name or key gives a different text.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};

/// Mode of a resource: managed, or a data source. Ordered as in Terraform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    Data,
    Managed,
}

impl Mode {
    /// The name of the mode in a state file.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Managed => "managed",
        }
    }

    /// The mode with the given name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Data, Self::Managed]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// Address of a resource in one module instance. Ordered as in Terraform: by module, mode, type, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResourceAddress {
    /// Canonical path of the module instance; empty for the root module.
    pub(super) module: String,
    pub(super) mode: Mode,
    pub(super) kind: String,
    pub(super) name: String,
}

impl ResourceAddress {
    /// The address in the configuration: without the keys of module instances.
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

/// Address of one instance of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InstanceAddress {
    pub(super) resource: ResourceAddress,
    /// Instance key. Ordered as in Terraform: no key, then numbers, then strings.
    pub(super) key: Option<Key>,
}

impl InstanceAddress {
    /// Parses the text that [`Display`](fmt::Display) writes. None if the text isn't the address of a resource
    /// instance.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (module, rest) = ModulePath::split_off(text)?;
        let (mode, rest) = match rest.strip_prefix("data.") {
            // If only a name follows, `data` is the type of a managed resource.
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

impl InstanceAddress {
    /// Whether Terraform accepts all names and the key of this address. [`Self::parse`] accepts more: it reads every state
    /// that some version of Terraform wrote.
    pub(super) fn is_valid(&self) -> bool {
        let Some(module) = ModulePath::parse(&self.resource.module) else {
            return false;
        };
        let keys = module.steps.iter().map(|(_, key)| key).chain([&self.key]);
        let is_index = |key: &Option<Key>| !matches!(key, Some(Key::Number(number)) if *number < 0);
        let names = module.steps.iter().map(|(name, _)| name);
        keys.into_iter().all(is_index)
            && names
                .chain([&self.resource.kind, &self.resource.name])
                .all(|name| is_hcl_identifier(name))
    }
}

impl fmt::Display for InstanceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)?;
        self.key.iter().try_for_each(|key| key.fmt(f))
    }
}

/// Whether a text can be a name in a configuration. Outside ASCII this accepts more than HCL: everything but white
/// space and control characters.
pub(super) fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_part =
        |c: char| is_letter(c) && !c.is_whitespace() && !c.is_control() || c.is_ascii_digit() || c == '-';
    text.starts_with(is_letter) && text.chars().all(is_part)
}

/// Whether a text is an identifier of HCL: letters, digits, `_` and `-`, and a letter or `_` first.
fn is_hcl_identifier(text: &str) -> bool {
    let is_part = |c: char| c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '-');
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_part)
}

/// Path of a module instance; the root module has no steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModulePath {
    steps: Vec<(String, Option<Key>)>,
}

impl ModulePath {
    /// Parses a whole text as a module path; the empty text is the root module.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { steps: Vec::new() });
        }
        // `split_off` expects a dot after each step, so append one.
        let dotted = format!("{text}.");
        let (path, rest) = Self::split_off(&dotted)?;
        rest.is_empty().then_some(path)
    }

    /// Parses the module path before a resource, and returns it with the rest of the text after the dot.
    pub(super) fn split_off(text: &str) -> Option<(Self, &str)> {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some((name, key, after)) = split_step(rest)? {
            steps.push((name.to_owned(), key));
            rest = after;
        }
        Some((Self { steps }, rest))
    }

    /// The path in the configuration: without instance keys.
    pub(super) fn without_keys(&self) -> String {
        let names = self.steps.iter().map(|(name, _)| format!("module.{name}"));
        names.collect::<Vec<_>>().join(".")
    }
}

/// Parses one module step, `module.x.` or `module.x[key].`. Returns None if the step is malformed, and `Some(None)` if
/// the text doesn't begin with a step: `module.x` or `module.x[0]` without another dot is a resource of type `module`.
fn split_step(text: &str) -> Option<Option<(&str, Option<Key>, &str)>> {
    let Some(named) = text.strip_prefix("module.") else {
        return Some(None);
    };
    let Some(end) = named.find(['.', '[']) else {
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

/// Key of an instance of a resource or module. Numbers sort before strings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// Index of an instance created with `count`.
    Number(i64),
    /// Key of an instance created with `for_each`.
    Text(String),
}

impl Key {
    /// Parses a key in brackets at the start of a text, and returns it with the rest of the text.
    pub(super) fn split_off(text: &str) -> Option<(Self, &str)> {
        let inside = text.strip_prefix('[')?;
        if let Some(quoted) = inside.strip_prefix('"') {
            let (key, rest) = unquote(quoted)?;
            return Some((Self::Text(key), rest.strip_prefix(']')?));
        }
        let (digits, rest) = inside.split_once(']')?;
        let number: i64 = digits.parse().ok()?;
        (number.to_string() == digits).then_some((Self::Number(number), rest))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "[{number}]"),
            Self::Text(text) => {
                f.write_str("[\"")?;
                write_quoted(f, text)?;
                f.write_str("\"]")
            }
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (at, character) in text.char_indices() {
        match character {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '"' | '\\' => write!(f, "\\{character}")?,
            '$' | '%' if text[at + 1..].starts_with('{') => write!(f, "{character}{character}")?,
            _ if is_visible(character) => f.write_char(character)?,
            _ if u32::from(character) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(character))?,
            _ => write!(f, "\\U{:08x}", u32::from(character))?,
        }
    }
    Ok(())
}

/// Whether Go's `unicode.IsPrint` accepts a character (apart from differences between Unicode versions): letters,
/// marks, numbers, punctuation, symbols and the space.
fn is_visible(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // `escape_debug` escapes a combining mark only at the start of a text, so test it after a letter.
    let mut pair = [0; 5];
    pair[0] = b'a';
    let length = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..length]).is_ok_and(|pair| pair.escape_debug().count() == 2)
}

/// Parses a quoted text up to the closing quote, and returns the text with the rest. None if the text isn't a literal
/// string, because it has an interpolation, an invalid escape or no closing quote.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = quoted;
    loop {
        let character = rest.chars().next()?;
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '"' => return Some((text, after)),
            '\n' => return None,
            '\\' => {
                let (decoded, rest) = unescape(after)?;
                text.push(decoded);
                rest
            }
            '$' | '%' if after.starts_with('{') => return None,
            '$' | '%' if after.starts_with(character) && after[1..].starts_with('{') => {
                text.push(character);
                text.push('{');
                &after[2..]
            }
            _ => {
                text.push(character);
                after
            }
        };
    }
}

/// Parses an escape sequence without its backslash, and returns the character with the rest of the text.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let plain = match escape.as_bytes().first()? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'"' => '"',
        b'\\' => '\\',
        b'u' => return code_point(escape, 5),
        b'U' => return code_point(escape, 9),
        _ => return None,
    };
    Some((plain, &escape[1..]))
}

fn code_point(escape: &str, end: usize) -> Option<(char, &str)> {
    let digits = escape.get(1..end)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((char::from_u32(code)?, &escape[end..]))
}

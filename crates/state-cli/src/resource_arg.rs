//! The name of a resource on a command line, as `list` prints it: an address, and for a deposed resource its key.

use state_core::{Address, DeposedKey, EntryKey};
use std::fmt;
use std::str::FromStr;

/// A resource that a user names: `aws_instance.web`, or `aws_instance.web (deposed 4f2a9c1b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceArg {
    pub(crate) address: Address,
    pub(crate) deposed: Option<DeposedKey>,
}

impl ResourceArg {
    /// Whether the argument names a resource with this key. Without a deposed key, it names all with this address.
    pub(crate) fn names(&self, key: &EntryKey) -> bool {
        self.deposed.is_none() || self.deposed == key.deposed
    }
}

impl FromStr for ResourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let deposed = text
            .strip_suffix(')')
            .and_then(|text| text.rsplit_once(" (deposed "));
        let (address, deposed) = match deposed.map(|(address, key)| (address, DeposedKey::new(key))) {
            Some((address, Ok(key))) => (address, Some(key)),
            _ => (text, None),
        };
        let address = Address::new(address).map_err(|error| error.to_string())?;
        Ok(Self { address, deposed })
    }
}

impl fmt::Display for ResourceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.deposed {
            None => self.address.fmt(f),
            Some(key) => write!(f, "{} (deposed {key})", self.address),
        }
    }
}

/// Parses the address of a live resource.
///
/// # Errors
/// If the text names a deposed resource.
pub(crate) fn live_address(text: &str) -> Result<Address, String> {
    let ResourceArg { address, deposed } = text.parse()?;
    match deposed {
        None => Ok(address),
        Some(_) => Err(format!(
            "a deposed resource awaits its deletion: it can only be shown, edited or removed; name `{address}`, or remove it with \
             `statectl rm '{text}'`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceArg, live_address};

    #[test]
    fn deposed_key_is_split_from_the_address() {
        for (text, address, key) in [
            ("a.b", "a.b", None),
            ("a.b (deposed 00000001)", "a.b", Some("00000001")),
            (r#"a["(deposed x)"]"#, r#"a["(deposed x)"]"#, None),
            ("a (deposed not a key)", "a (deposed not a key)", None),
        ] {
            let parsed: ResourceArg = text.parse().unwrap();
            assert_eq!(parsed.address.as_str(), address);
            assert_eq!(parsed.deposed.as_ref().map(|key| key.as_str()), key);
            assert_eq!(parsed.to_string(), text);
        }
        assert!(live_address("a (deposed 00000001)").is_err());
        assert!("".parse::<ResourceArg>().is_err());
    }
}

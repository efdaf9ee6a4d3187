//! Parses the URNs of resources, `urn:pulumi:<stack>::<project>::<parent types$type>::<name>`, and provider references.

const PREFIX: &str = "urn:pulumi:";
const DELIMITER: &str = "::";
/// Prefix of the type of every provider resource.
const PROVIDERS: &str = "pulumi:providers:";
/// Type of the root stack resource.
pub(super) const ROOT_TYPE: &str = "pulumi:pulumi:Stack";

/// Splits a URN into its four parts; the last one, the name, may contain the delimiter.
fn parts(urn: &str) -> Option<[&str; 4]> {
    let mut parts = urn.strip_prefix(PREFIX)?.splitn(4, DELIMITER);
    Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
}

/// Whether a text is a URN.
pub(super) fn is_urn(text: &str) -> bool {
    parts(text).is_some()
}

/// Returns `project/stack` of a URN.
pub(super) fn identity(urn: &str) -> Option<String> {
    let [stack, project, ..] = parts(urn)?;
    Some(format!("{project}/{stack}"))
}

/// Returns the type of a URN's resource, without the types of its parents.
pub(super) fn kind(urn: &str) -> Option<&str> {
    let [_, _, types, name] = parts(urn)?;
    types
        .rsplit('$')
        .next()
        .filter(|kind| !kind.is_empty() && !name.is_empty())
}

/// Splits a provider reference, `<urn>::<id>`, into URN and id.
pub(super) fn provider(reference: &str) -> Option<(&str, &str)> {
    let (urn, id) = reference.rsplit_once(DELIMITER)?;
    let [_, _, types, _] = parts(urn)?;
    let own = types.rsplit('$').next()?;
    (own.starts_with(PROVIDERS) && !id.is_empty()).then_some((urn, id))
}

/// Writes a provider reference.
pub(super) fn reference(urn: &str, id: &str) -> String {
    format!("{urn}{DELIMITER}{id}")
}

#[cfg(test)]
mod tests {
    use super::{identity, is_urn, provider};

    #[test]
    fn urn_has_four_parts_and_name_may_contain_delimiter() {
        assert!(is_urn("urn:pulumi:dev::p::a:b:C$d:e:F::name"));
        assert!(is_urn("urn:pulumi:dev::p::a:b:C::name::with::more"));
        for text in ["", "name", "urn:pulumi:dev::p::a:b:C", "urn:other:dev::p::t::n"] {
            assert!(!is_urn(text), "{text}");
        }
        assert_eq!(identity("urn:pulumi:dev::p::t::n").as_deref(), Some("p/dev"));
    }

    #[test]
    fn provider_reference_is_split_at_its_last_delimiter() {
        let urn = "urn:pulumi:dev::p::a:b:C$pulumi:providers:aws::west::1";
        assert_eq!(provider(&format!("{urn}::id-1")), Some((urn, "id-1")));
        for text in [
            "urn:pulumi:dev::p::pulumi:providers:aws::west",
            "urn:pulumi:dev::p::pulumi:providers:aws::west::",
            "urn:pulumi:dev::p::aws:s3:Bucket::b::id",
            "west::id",
        ] {
            assert_eq!(provider(text), None, "{text}");
        }
    }
}

//! The names of resources: `urn:pulumi:<stack>::<project>::<parent types$type>::<name>`, and references to providers.

const PREFIX: &str = "urn:pulumi:";
const DELIMITER: &str = "::";
/// What the type of every provider resource begins with.
const PROVIDERS: &str = "pulumi:providers:";
/// The type of the resource that stands for the whole stack.
pub(super) const ROOT_TYPE: &str = "pulumi:pulumi:Stack";

/// The four parts of a URN; the name may hold the delimiter.
fn parts(urn: &str) -> Option<[&str; 4]> {
    let mut parts = urn.strip_prefix(PREFIX)?.splitn(4, DELIMITER);
    Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
}

/// Whether a text is a URN.
pub(super) fn is_urn(text: &str) -> bool {
    parts(text).is_some()
}

/// `project/stack` of a URN.
pub(super) fn identity(urn: &str) -> Option<String> {
    let [stack, project, ..] = parts(urn)?;
    Some(format!("{project}/{stack}"))
}

/// URN and id of a provider reference, `<urn>::<id>`.
pub(super) fn provider(reference: &str) -> Option<(&str, &str)> {
    let (urn, id) = reference.rsplit_once(DELIMITER)?;
    let [_, _, types, _] = parts(urn)?;
    let own = types.rsplit('$').next()?;
    (own.starts_with(PROVIDERS) && !id.is_empty()).then_some((urn, id))
}

/// A provider reference.
pub(super) fn reference(urn: &str, id: &str) -> String {
    format!("{urn}{DELIMITER}{id}")
}

#[cfg(test)]
mod tests {
    use super::{identity, is_urn, provider};

    #[test]
    fn a_urn_has_four_parts_and_the_last_may_hold_anything() {
        assert!(is_urn("urn:pulumi:dev::p::a:b:C$d:e:F::name"));
        assert!(is_urn("urn:pulumi:dev::p::a:b:C::name::with::more"));
        for text in ["", "name", "urn:pulumi:dev::p::a:b:C", "urn:other:dev::p::t::n"] {
            assert!(!is_urn(text), "{text}");
        }
        assert_eq!(identity("urn:pulumi:dev::p::t::n").as_deref(), Some("p/dev"));
    }

    #[test]
    fn a_provider_reference_is_split_at_its_last_delimiter() {
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

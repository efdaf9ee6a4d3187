//! Reads: cells of the table in [`crate::mutation`].

use super::*;

#[test]
fn read_records_new_and_known_external_entries() {
    let mut bench = Bench::with([Entry {
        external: true,
        ..resource("a", &[])
    }]);
    assert_eq!(
        bench.run(
            Op::Read,
            Entry {
                external: true,
                id: Some("1".into()),
                ..resource("a", &[])
            }
        ),
        vec![]
    );
    assert_eq!(
        bench.run(
            Op::Read,
            Entry {
                external: true,
                ..resource("b", &["a"])
            }
        ),
        vec![]
    );
    assert_eq!(bench.order(), ["a", "b"]);
    assert_eq!(bench.entry("a").id.as_deref(), Some("1"));
}

#[test]
fn read_without_a_uid_keeps_the_uid() {
    let known = Entry {
        external: true,
        ..resource("a", &[])
    };
    let mut bench = Bench::with([known.clone()]);
    let seen = Entry {
        uid: None,
        id: Some("1".into()),
        ..known
    };
    assert_eq!(bench.run(Op::Read, seen), vec![]);
    assert_eq!(bench.entry("a").id.as_deref(), Some("1"));
    assert_eq!(bench.entry("a").uid, Some(uid("a")));
}

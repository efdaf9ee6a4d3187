//! Large Terraform states: an import takes time proportional to the size of the file. Each of these tests took minutes
//! when the time was quadratic.

use crate::support::{export, import, with_resources};
use state_core::Snapshot;
use state_core::mask::count_sensitive;
use state_formats::{mark_secrets, readable_fields};
use std::fmt::Write as _;

const COUNT: usize = 40_000;

fn written(mut write: impl FnMut(usize, &mut String) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for n in 0..COUNT {
        text.push_str(if n == 0 { "" } else { "," });
        write(n, &mut text).expect("a String accepts every write");
    }
    text
}

fn marked(text: &str) -> Snapshot {
    let mut snapshot = import(text).snapshot;
    mark_secrets(&mut snapshot);
    assert_eq!(count_sensitive(&snapshot), COUNT);
    assert!(
        export(&snapshot) == text,
        "an unchanged state is exported byte for byte"
    );
    snapshot
}

#[test]
fn long_chain_of_direct_dependencies_is_not_expanded() {
    let resources = written(|n, out| {
        let before = n
            .checked_sub(1)
            .map(|before| format!("\"t.a{before}\""))
            .unwrap_or_default();
        write!(
            out,
            r#"{{"mode": "managed", "type": "t", "name": "a{n}", "provider": "provider[\"x/y/z\"]",
            "instances": [{{"schema_version": 0, "attributes": {{}}, "dependencies": [{before}]}}]}}"#
        )
    });
    let text = with_resources(&format!("[{resources}]"));
    assert!(export(&import(&text).snapshot) == text);
}

#[test]
fn each_of_many_outputs_may_be_sensitive() {
    let outputs = written(|n, out| {
        write!(
            out,
            r#""o{n}": {{"value": "secret-{n:08}", "type": "string", "sensitive": true}}"#
        )
    });
    let text = with_resources("[]").replace(r#""outputs": {}"#, &format!(r#""outputs": {{{outputs}}}"#));
    assert!(readable_fields(&marked(&text)).is_empty());
}

#[test]
fn each_of_many_list_elements_may_be_sensitive() {
    let values = written(|n, out| write!(out, r#""secret-{n:08}""#));
    let marks = written(|n, out| {
        write!(
            out,
            r#"[{{"type": "get_attr", "value": "l"}}, {{"type": "index", "value": {{"value": {n}, "type": "number"}}}}]"#
        )
    });
    let resource = format!(
        r#"{{"mode": "managed", "type": "t", "name": "n", "provider": "provider[\"x/y/z\"]", "instances": [{{
        "schema_version": 0, "attributes": {{"l": [{values}]}}, "sensitive_attributes": [{marks}]}}]}}"#
    );
    let readable = readable_fields(&marked(&with_resources(&format!("[{resource}]"))));
    assert!(readable["t"].contains("l"), "only the elements are marked");
}

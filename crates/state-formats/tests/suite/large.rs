//! Large Terraform states: an import takes time proportional to the size of the file. Each of these tests took minutes
//! when the time was quadratic.

use crate::support::{export, import, try_import, with_resources};
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

/// A large state is read in chunks from its end, and an error is found again on the whole text.
#[test]
fn first_error_of_a_large_state_names_its_position() {
    let resources = written(|n, out| {
        // The errors lie in different chunks.
        let status = match n {
            9_000 => r#""status": "odd","#,
            35_000 => r#""status": "late","#,
            _ => "",
        };
        writeln!(
            out,
            r#"{{"mode": "managed", "type": "t", "name": "a{n}", "provider": "provider[\"x/y/z\"]", "instances":
            [{{{status} "schema_version": 0, "attributes": {{}}}}]}}"#
        )
    });
    let text = with_resources(&format!("[{resources}]"));
    assert!(text.len() > 4 << 20);
    let before = &text[..text.find(r#""odd""#).expect("the first error")];
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').expect("an earlier line");
    let error = try_import(&text).expect_err("an unknown status").to_string();
    let position = format!("at line {line}, column {column} ($.resources[9000].instances[0].status)");
    assert!(error.contains(&position), "{error}, expected {position}");
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

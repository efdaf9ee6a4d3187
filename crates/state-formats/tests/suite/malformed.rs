//! Truncated and modified states are read or refused, and never cause a panic.

use crate::support::{detect, export_as, shared_states, try_import, try_import_as, with_instance};

/// A state with every kind of field.
fn rich() -> String {
    with_instance(
        r#"{"index_key": "a\"b", "status": "tainted", "deposed": "00000001", "schema_version": 1,
            "attributes": {"id": "i", "x": {"value": [1.50, null], "type": ["tuple", ["number", "dynamic"]]}},
            "sensitive_attributes": [[{"type": "get_attr", "value": "x"}, {"type": "index", "value": {"value": 0, "type": "number"}}]],
            "identity_schema_version": 0, "identity": {"id": "i"}, "private": "bnVsbA==", "dependencies": ["t.a", "data.t.b"],
            "create_before_destroy": true, "skip_destroy": true, "provider": "provider.t"}"#,
    )
}

#[test]
fn every_truncation_is_refused_with_its_position() {
    let whole = rich();
    for end in 1..whole.len() {
        let Err(error) = try_import(&whole[..end]) else {
            panic!("accepted: {}", &whole[..end]);
        };
        let message = error.to_string();
        assert!(
            message.contains("at line ") && message.contains(", column "),
            "{message}"
        );
    }
}

#[test]
fn changed_byte_never_panics_and_accepted_state_roundtrips() {
    let texts = [
        rich(),
        include_str!("../fixtures/legacy/v2.tfstate").to_owned(),
        include_str!("../fixtures/opentofu/sha256-16.tfstate").to_owned(),
    ];
    for text in texts {
        for at in 0..text.len() {
            for byte in [b'"', b'0', b'-', b'}', b' ', b'\\', 0xff] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] = byte;
                let found = detect(&bytes);
                let Ok(imported) = try_import_as(&bytes, "terraform") else {
                    continue;
                };
                let exported = export_as(&imported.snapshot, "terraform").expect("it was read");
                if found.is_ok() && text.contains("\"version\": 4") {
                    assert!(exported == bytes, "{}", String::from_utf8_lossy(&bytes));
                }
            }
        }
    }
}

#[test]
fn white_space_and_other_encodings_are_refused() {
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, part) in [
        (b" \n\t".as_slice(), "white space"),
        (&utf16, "UTF-16"),
        (b"{\"version\": 4, \"lineage\": \"\xff\"}", "not UTF-8"),
        (b"\x1f\x8b\x08", "gzip stream: it is damaged or truncated"),
    ] {
        let error = try_import_as(bytes, "terraform")
            .expect_err("no state")
            .to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn deeply_nested_input_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(try_import(&deep).is_err());
    let nested = with_instance(&format!(
        "{{\"attributes\": {}1{}}}",
        "{\"a\":".repeat(70),
        "}".repeat(70)
    ));
    let error = try_import(&nested).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than 60 levels"), "{error}");
}

#[test]
fn no_real_state_is_read_as_another_format() {
    for folder in ["terraform", "opentofu"] {
        for (path, text) in shared_states(folder).unwrap_or_default() {
            if let Ok(format) = detect(text.as_bytes()) {
                assert_eq!(format, "terraform", "{}", path.display());
            }
            for other in ["native", "unobin"] {
                assert!(
                    try_import_as(text.as_bytes(), other).is_err(),
                    "{}",
                    path.display()
                );
            }
        }
    }
}

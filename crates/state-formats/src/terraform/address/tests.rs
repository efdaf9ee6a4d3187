//! Tests that addresses are printed like Terraform's and parsed back.

use super::{InstanceAddress, Key, Mode, ModulePath, ResourceAddress};
use proptest::prelude::*;
use state_core::testkit::run::property_config;

fn with_key(key: Option<Key>) -> InstanceAddress {
    let resource = ResourceAddress {
        module: String::new(),
        mode: Mode::Managed,
        kind: "t".to_owned(),
        name: "n".to_owned(),
    };
    InstanceAddress { resource, key }
}

#[test]
fn keys_are_quoted_like_terraform_state_list() {
    for (key, printed) in [
        ("a.b", "a.b"),
        ("a\"b", "a\\\"b"),
        ("back\\slash", "back\\\\slash"),
        ("dollar${x}", "dollar$${x}"),
        ("$${x}", "$$${x}"),
        ("$x", "$x"),
        ("pct%{y}", "pct%%{y}"),
        ("nl\nx", "nl\\nx"),
        ("cr\rx", "cr\\rx"),
        ("tab\tx", "tab\\tx"),
        ("nul\u{1}x", "nul\\u0001x"),
        ("<&>", "<&>"),
        ("\u{7f}", "\\u007f"),
        ("\u{85}", "\\u0085"),
        ("\u{a0}", "\\u00a0"),
        ("\u{ad}", "\\u00ad"),
        ("ünï", "ünï"),
        ("\u{300}", "\u{300}"),
        ("\u{378}", "\\u0378"),
        ("\u{200b}", "\\u200b"),
        ("\u{2028}", "\\u2028"),
        ("\u{e000}", "\\ue000"),
        ("\u{feff}", "\\ufeff"),
        ("\u{e0001}", "\\U000e0001"),
        ("😀", "😀"),
    ] {
        let address = with_key(Some(Key::Text(key.to_owned()))).to_string();
        assert_eq!(address, format!("t.n[\"{printed}\"]"));
        let parsed = InstanceAddress::parse(&address).expect("an address");
        assert_eq!(parsed.key, Some(Key::Text(key.to_owned())));
    }
}

#[test]
fn types_named_data_and_module_are_parsed_as_types() {
    for (text, module, mode, kind) in [
        ("data.t.n", "", Mode::Data, "t"),
        ("data.n", "", Mode::Managed, "data"),
        ("data.n[\"a.b\"]", "", Mode::Managed, "data"),
        ("module.n", "", Mode::Managed, "module"),
        ("module.n[0]", "", Mode::Managed, "module"),
        ("module.a.t.n", "module.a", Mode::Managed, "t"),
        ("module.a.data.n", "module.a", Mode::Managed, "data"),
        (
            "module.a[0].module.b[\"x.y\"].data.t.n",
            "module.a[0].module.b[\"x.y\"]",
            Mode::Data,
            "t",
        ),
    ] {
        let address = InstanceAddress::parse(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(address.to_string(), text);
        let resource = &address.resource;
        assert_eq!(
            (&*resource.module, resource.mode, &*resource.kind),
            (module, mode, kind)
        );
    }
}

#[test]
fn invalid_addresses_are_refused() {
    for text in [
        "",
        "t",
        "t.",
        ".n",
        "t.n[",
        "t.n[01]",
        "t.n[\"${x}\"]",
        "t.n[\"a\"]x",
        "module..t.n",
        "t.n.o",
        "1.2",
    ] {
        assert!(InstanceAddress::parse(text).is_none(), "{text}");
    }
    for text in ["module", "module.", "module.a.", "module.a[", "x.a", "module.a.t"] {
        assert!(ModulePath::parse(text).is_none(), "{text}");
    }
}

#[test]
fn group_address_has_no_instance_keys() {
    let address = InstanceAddress::parse("module.a[0].module.b[\"x\"].data.t.n[3]").expect("an address");
    assert_eq!(address.resource.group(), "module.a.module.b.data.t.n");
}

#[test]
fn instance_keys_sort_none_then_numbers_then_strings() {
    let keys = [
        None,
        Some(Key::Number(2)),
        Some(Key::Number(10)),
        Some(Key::Text("1".to_owned())),
    ];
    assert!(keys.is_sorted());
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn printed_address_parses_back(text in any::<String>(), number in any::<i64>(), plain in any::<bool>()) {
        let key = if plain { Key::Number(number) } else { Key::Text(text) };
        let address = with_key(Some(key));
        let written = address.to_string();
        prop_assert!(!written.chars().any(char::is_control));
        prop_assert_eq!(InstanceAddress::parse(&written), Some(address));
    }
}

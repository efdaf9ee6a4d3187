//! The rules of each format for edits: what its system could not load is refused, and what its system will do is predicted.

use crate::support::{import, try_import_as, with_resources};
use state_core::{Address, DeposedKey, Entry, SharedEntry, Snapshot};
use state_formats::{Action, EditReview, Formats, Pulumi, StateEdit, StateFormat, Terraform};

/// A Terraform state with a managed resource of two instances, a data source, and a resource of another provider.
fn terraform() -> Snapshot {
    let resource = |mode: &str, kind: &str, name: &str, provider: &str, instances: &str| {
        format!(
            r#"{{"mode": "{mode}", "type": "{kind}", "name": "{name}", "provider": "provider.{provider}", "instances": [{instances}]}}"#
        )
    };
    let instance = |key: &str, id: &str| format!(r#"{{"index_key": {key}, "attributes": {{"id": "{id}"}}}}"#);
    let all = [
        resource("data", "t", "d", "t", r#"{"attributes": {"id": "d-1"}}"#),
        resource(
            "managed",
            "t",
            "a",
            "t",
            &format!("{}, {}", instance("0", "i-0"), instance("1", "i-1")),
        ),
        resource("managed", "t", "b", "t.other", r#"{"attributes": {"id": "i-2"}}"#),
    ];
    import(&with_resources(&format!("[{}]", all.join(",")))).snapshot
}

/// Reviews a change of the entry with this address.
fn review(
    format: &dyn StateFormat,
    snapshot: &Snapshot,
    address: &str,
    change: impl Fn(&mut Entry),
) -> EditReview {
    let edited = |entry: &SharedEntry| {
        let mut entry = Entry::clone(entry);
        if entry.address.as_str() == address {
            change(&mut entry);
        }
        SharedEntry::new(entry)
    };
    let mut before = snapshot.entries.clone();
    for (number, entry) in before.iter_mut().enumerate() {
        let mut known = Entry::clone(entry);
        known.uid = Some(state_core::Uid::from_bits([number as u8 + 1; 16]));
        *entry = known.into();
    }
    let after: Vec<SharedEntry> = before.iter().map(edited).collect();
    format.review(&StateEdit::between(before.iter(), after.iter()))
}

/// Gives an entry an address, and the group that fits a root module.
fn moved(to: &str) -> impl Fn(&mut Entry) {
    move |entry: &mut Entry| {
        entry.address = to.parse().expect("an address");
        entry.group = Address::new(to.split('[').next().unwrap_or_default()).ok();
    }
}

fn actions(review: &EditReview) -> Vec<(Action, String)> {
    let effects = review.effects.iter();
    effects
        .map(|effect| (effect.action, effect.entry.key().to_string()))
        .collect()
}

#[test]
fn address_that_terraform_cannot_hold_is_refused() {
    let state = terraform();
    for (to, reason) in [
        ("not valid !!", "isn't an address"),
        ("t", "isn't an address"),
        ("t.1", "isn't an address"),
        ("t.a[01]", "isn't an address"),
        ("t.a[-1]", "isn't an address"),
        ("t.a b", "isn't an address"),
        ("t.x\u{2003}y", "isn't an address"),
        (r#"t.a["\u0061"]"#, r#"writes this address as `t.a["a"]`"#),
        ("u.a", "can't change the type"),
        ("data.t.a", "to a data source"),
        ("t.b[5]", "different providers"),
    ] {
        let review = review(&Terraform, &state, "t.a[0]", moved(to));
        let problems: Vec<&str> = review.problems.iter().map(|problem| &*problem.reason).collect();
        assert!(
            problems.len() == 1 && problems[0].contains(reason),
            "{to}: {problems:?}"
        );
    }
    for to in ["t.x", "t.a[7]", r#"t.a["a.b"]"#, "t.größe", "t.a-b"] {
        let review = review(&Terraform, &state, "t.a[0]", moved(to));
        assert_eq!(review.problems, [], "{to}");
        assert_eq!(
            actions(&review),
            [(Action::DestroyUnlessMoved, to.to_owned())],
            "{to}"
        );
    }
}

#[test]
fn effects_name_what_terraform_destroys_replaces_or_forgets() {
    let state = terraform();
    let edit = |address: &str, change: fn(&mut Entry)| review(&Terraform, &state, address, change);
    let replaced = edit("t.a[1]", |entry| entry.tainted = true);
    assert_eq!(actions(&replaced), [(Action::Replace, "t.a[1]".to_owned())]);
    let deposed = edit("t.a[1]", |entry| entry.deposed = DeposedKey::new("00000001").ok());
    assert_eq!(
        actions(&deposed),
        [(Action::Destroy, "t.a[1] (deposed 00000001)".to_owned())]
    );
    let other = edit("t.a[1]", |entry| entry.id = Some("i-9".to_owned()));
    assert_eq!(other.effects[0].entry.id.as_deref(), Some("i-1"));
    assert_eq!(actions(&other), [(Action::Forget, "t.a[1]".to_owned())]);
    let removed = Terraform.review(&StateEdit::between(
        state.entries.iter(),
        state
            .entries
            .iter()
            .filter(|entry| entry.address.as_str() != "t.b"),
    ));
    assert_eq!(actions(&removed), [(Action::Forget, "t.b".to_owned())]);
    let data = edit("data.t.d", |entry| entry.tainted = true);
    assert!(data.effects.is_empty() && data.problems[0].reason.contains("only reads it"));
    let protected = edit("t.b", |entry| entry.protect = true);
    assert!(protected.problems.is_empty() && protected.effects.is_empty());
    assert!(
        protected.remarks[0].contains("prevent_destroy") && protected.remarks[0].contains("t.b"),
        "{:?}",
        protected.remarks
    );
}

#[test]
fn entry_without_a_provider_is_refused_by_terraform() {
    let state = terraform();
    let mut native = Entry::leaf("t.native".parse().expect("an address"), "t");
    native.group = Address::new("t.native").ok();
    let added = SharedEntry::new(native);
    let after = state.entries.iter().chain([&added]);
    let review = Terraform.review(&StateEdit::between(state.entries.iter(), after));
    assert!(review.problems[0].reason.contains("no provider"), "{review:?}");
}

#[test]
fn urn_that_pulumi_cannot_hold_is_refused() {
    let urn = "urn:pulumi:dev::shop::t:i:T::a";
    let text = format!(
        r#"{{"version": 3, "deployment": {{"resources": [{{"urn": "{urn}", "custom": true, "id": "i-1", "type": "t:i:T"}}]}}}}"#
    );
    let state = try_import_as(text.as_bytes(), "pulumi")
        .expect("a state")
        .snapshot;
    let to = |text: &'static str| {
        review(&Pulumi, &state, urn, move |entry| {
            entry.address = text.parse().expect("an address");
        })
    };
    for (address, reason) in [
        ("a", "isn't a URN"),
        ("urn:pulumi:dev::shop::t:i:U::a", "type"),
        ("urn:pulumi:prod::shop::t:i:T::a", "`shop/prod`"),
        ("urn:pulumi:dev::other::t:i:T::a", "`other/dev`"),
    ] {
        let review = to(address);
        assert!(
            review.problems.len() == 1 && review.problems[0].reason.contains(reason),
            "{address}: {review:?}"
        );
    }
    let renamed = to("urn:pulumi:dev::shop::t:i:T::b");
    assert_eq!(renamed.problems, []);
    assert_eq!(renamed.effects[0].action, Action::DestroyUnlessMoved);
}

#[test]
fn order_of_sensitive_attributes_is_no_change() {
    let state = |paths: &[&str], serial: u64| {
        let instance = format!(
            r#"[{{"mode": "managed", "type": "t", "name": "a", "provider": "provider.t", "instances": [{{"attributes": {{"a": ["x"], "b": "y"}}, "sensitive_attributes": [{}]}}]}}]"#,
            paths.join(",")
        );
        import(&with_resources(&instance).replace("\"serial\": 7", &format!("\"serial\": {serial}")))
    };
    let name = r#"[{"type": "get_attr", "value": "b"}]"#;
    let index =
        r#"[{"type": "get_attr", "value": "a"}, {"type": "index", "value": {"value": 0, "type": "number"}}]"#;
    let (one, other) = (state(&[name, index], 7), state(&[index, name], 7));
    assert!(
        Terraform
            .same_content(&one.snapshot, &other.snapshot)
            .expect("comparable")
    );
    assert_eq!(
        one.snapshot.entries[0].extensions,
        other.snapshot.entries[0].extensions
    );
    let changes = state_core::diff::entry_changes(&one.snapshot.entries[0], &other.snapshot.entries[0]);
    assert!(changes.is_empty(), "{changes:?}");
    let formats = Formats::standard();
    let verdict = formats
        .check_import(Some(&one.snapshot), &other)
        .expect("comparable");
    assert_eq!(verdict, state_formats::ImportVerdict::Accepted);
}

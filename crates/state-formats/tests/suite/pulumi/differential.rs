//! Compares the verifier and the repair with Pulumi's rules, implemented here independently over the JSON.

use super::generate::resources;
use super::support::{export, import, text_of, urn, value};
use crate::properties::generate::Choices;
use serde_json::{Value, json};
use state_core::repair::repair;
use state_core::testkit::run::scaled;
use state_core::verify::{Rule, verify};
use std::collections::BTreeSet;

/// Number of states; every second one is corrupt.
const STATES: u32 = 1_000;

/// A corruption: its name, the function that applies it, the violated rule, and whether a repair can fix the state.
type Corruption = (&'static str, fn(&mut Vec<Value>, &mut Choices), Rule, bool);

const CORRUPTIONS: [Corruption; 12] = [
    (
        "a child before its parent",
        child_first,
        Rule::ReferenceEarlier,
        true,
    ),
    (
        "a missing parent",
        |list, c| last(list, c)["parent"] = gone(),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a missing dependency",
        |list, c| last(list, c)["dependencies"] = json!([gone()]),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a missing property dependency",
        |list, c| last(list, c)["propertyDependencies"] = json!({"a": [gone()]}),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a missing deletedWith",
        |list, c| last(list, c)["deletedWith"] = gone(),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a missing replaceWith",
        |list, c| last(list, c)["replaceWith"] = json!([gone()]),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a missing provider",
        |list, c| last(list, c)["provider"] = format!("{}::1", urn("pulumi:providers:x", "gone")).into(),
        Rule::ReferenceExists,
        true,
    ),
    (
        "a provider with another id",
        other_provider_id,
        Rule::ProviderId,
        true,
    ),
    ("a duplicate live URN", live_twice, Rule::UniqueKey, true),
    (
        "two resources that depend on each other",
        cycle,
        Rule::Acyclic,
        true,
    ),
    (
        "a component with an id",
        |list, c| {
            let resource = last(list, c);
            (resource["custom"], resource["id"]) = (false.into(), "x".into());
        },
        Rule::TypeFields,
        false,
    ),
    (
        "a missing type",
        |list, c| last(list, c)["type"] = "".into(),
        Rule::TypeFields,
        false,
    ),
];

fn gone() -> Value {
    urn("a:b:C", "gone").into()
}

/// Appends a new resource and returns it.
fn last<'a>(list: &'a mut Vec<Value>, _: &mut Choices) -> &'a mut Value {
    list.push(json!({"urn": urn("t:i:Last", "last"), "custom": true, "id": "l", "type": "t:i:Last"}));
    list.last_mut().expect("just pushed")
}

fn child_first(list: &mut Vec<Value>, choices: &mut Choices) {
    let parent = json!({"urn": urn("t:i:P", "parent"), "custom": false, "type": "t:i:P"});
    let child = json!({"urn": urn("t:i:Q", "child"), "custom": true, "id": "q", "type": "t:i:Q",
        "parent": parent["urn"]});
    list.insert(choices.below(list.len() + 1), child);
    list.push(parent);
}

fn other_provider_id(list: &mut Vec<Value>, choices: &mut Choices) {
    let provider = urn("pulumi:providers:t", "mine");
    list.push(json!({"urn": provider, "custom": true, "id": "1", "type": "pulumi:providers:t"}));
    last(list, choices)["provider"] = format!("{provider}::2").into();
}

fn live_twice(list: &mut Vec<Value>, choices: &mut Choices) {
    let twin = last(list, choices).clone();
    list.push(twin);
}

fn cycle(list: &mut Vec<Value>, _: &mut Choices) {
    let resource = |name: &str, other: &str| {
        json!({"urn": urn("t:i:T", name), "custom": true, "id": name, "type": "t:i:T",
            "dependencies": [urn("t:i:T", other)]})
    };
    list.extend([resource("one", "two"), resource("two", "one")]);
}

/// Checks Pulumi's rules in list order, then for duplicate URNs. Returns a description of the first violation; None if
/// the list is valid.
fn pulumi_objects(list: &[Value]) -> Option<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut providers: BTreeSet<String> = BTreeSet::new();
    for resource in list {
        let text = |key: &str| resource[key].as_str().unwrap_or_default();
        let is_set = |key: &str| resource[key].as_bool().unwrap_or_default();
        let urn = text("urn");
        if text("type").is_empty() {
            return Some(format!("{urn} has no type"));
        }
        if !is_set("custom") && !text("id").is_empty() {
            return Some(format!("{urn} is a component with an id"));
        }
        let provider = text("provider");
        if !provider.is_empty() && !is_set("pendingReplacement") && !providers.contains(provider) {
            return Some(format!("{urn} names an unknown provider"));
        }
        let lists = ["dependencies", "replaceWith"].map(|key| resource[key].as_array());
        let by_property = resource["propertyDependencies"].as_object();
        let by_property = by_property
            .into_iter()
            .flat_map(|lists| lists.values().filter_map(Value::as_array));
        let named = lists.into_iter().flatten().chain(by_property).flatten();
        let named = named.filter_map(Value::as_str);
        let single = ["parent", "deletedWith"]
            .map(text)
            .into_iter()
            .filter(|name| !name.is_empty());
        for name in named.chain(single) {
            if !seen.contains(name) {
                return Some(format!("{urn} names {name}, which isn't earlier in the list"));
            }
        }
        if text("type").starts_with("pulumi:providers:") {
            providers.insert(format!("{urn}::{}", text("id")));
        }
        seen.insert(urn);
    }
    let live = |urn: &str| {
        let same = list.iter().filter(|resource| resource["urn"] == urn);
        same.filter(|resource| resource["delete"] != true).count()
    };
    let twice = seen.iter().find(|urn| live(urn) > 1);
    twice.map(|urn| format!("{urn} occurs twice"))
}

fn choices(seed: u64) -> Choices {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    Choices::new(std::iter::repeat_with(byte).take(500).collect())
}

#[test]
fn verifier_and_repair_agree_with_pulumi_rules() {
    let mut broken = 0;
    for seed in 0..u64::from(scaled(STATES)) {
        let mut choices = choices(seed);
        let mut list = resources(&mut choices);
        let kind = (seed % 2 == 1).then(|| CORRUPTIONS[(seed / 2) as usize % CORRUPTIONS.len()]);
        if let Some((_, corrupt, ..)) = kind {
            corrupt(&mut list, &mut choices);
            broken += 1;
        }
        let name = kind.map_or("nothing", |(name, ..)| name);
        let place = format!("seed {seed}: {name}");
        let snapshot = import(&text_of(&list)).snapshot;
        let found = verify(&snapshot).violations;
        let objection = pulumi_objects(&list);
        assert_eq!(
            objection.is_some(),
            !found.is_empty(),
            "{place}: {objection:?}, {found:#?}"
        );
        let Some((_, _, rule, mends)) = kind else { continue };
        assert!(
            found.iter().any(|found| found.rule == rule),
            "{place}: {found:#?}"
        );

        let repaired = repair(&snapshot);
        assert_eq!(repaired, repair(&snapshot), "{place}: not deterministic");
        assert_eq!(repaired.is_valid(), mends, "{place}: {:#?}", repaired.remaining);
        assert!(
            repair(&repaired.snapshot).steps.is_empty(),
            "{place}: not idempotent"
        );
        if !mends {
            continue;
        }
        assert!(!repaired.steps.is_empty(), "{place}");
        let text = export(&repaired.snapshot);
        let list = value(&text)["deployment"]["resources"]
            .as_array()
            .expect("a list")
            .clone();
        assert_eq!(pulumi_objects(&list), None, "{place}");
        assert!(verify(&import(&text).snapshot).is_valid(), "{place}");
    }
    assert!(broken * 2 >= STATES);
}

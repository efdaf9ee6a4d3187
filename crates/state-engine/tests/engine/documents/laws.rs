//! Property tests of program documents: dependencies determine the order of creates, and the YAML and JSON forms of a
//! program record the same entries.

use super::echo::Echo;
use super::{run, source};
use crate::harness::Harness;
use proptest::prelude::*;
use state_core::Dependency;
use state_core::testkit::run::scaled;
use state_engine::Operation;
use std::collections::BTreeSet;

/// Number of forms of a dependency: 0 a reference as a whole input, 1 a reference embedded in a string, 2 `depends_on`,
/// 3 `replace_with`, 4 `parent`.
const WAYS: usize = 5;

/// Generated resources: the name and the dependencies of each. A dependency is the index of an earlier resource and a
/// form (see [`WAYS`]).
type Drawn = Vec<(String, Vec<(usize, usize)>)>;

/// Generates resources that depend on earlier ones.
fn any_program() -> impl Strategy<Value = Drawn> {
    let needs = proptest::collection::vec((any::<prop::sample::Index>(), 0..WAYS), 0..3);
    proptest::collection::vec(("[a-zA-Z0-9_-]{1,4}", needs), 1..8).prop_map(|drawn| {
        let resources = drawn.into_iter().enumerate().map(|(at, (name, needs))| {
            let needs = needs.into_iter().filter(|_| at > 0);
            let needs = needs.map(|(index, way)| (index.index(at), way)).collect();
            (format!("{name}{at}"), needs)
        });
        resources.collect()
    })
}

/// The inputs and options of a resource as JSON members.
fn members(drawn: &Drawn, at: usize) -> [Vec<(String, String)>; 2] {
    let in_way = |way: usize| -> Vec<&str> {
        let of_way = drawn[at].1.iter().filter(|(_, other)| *other == way);
        of_way.map(|(to, _)| drawn[*to].0.as_str()).collect()
    };
    let list = |way: usize| {
        let names: BTreeSet<String> = in_way(way).iter().map(|name| format!("{name:?}")).collect();
        format!("[{}]", Vec::from_iter(names).join(","))
    };
    let mut inputs = vec![("number".to_owned(), at.to_string())];
    for (count, to) in in_way(0).iter().enumerate() {
        inputs.push((format!("whole{count}"), format!("\"${{{to}.number}}\"")));
    }
    for (count, to) in in_way(1).iter().enumerate() {
        inputs.push((format!("joined{count}"), format!("[\"x\",\"a ${{{to}.id}} b\"]")));
    }
    let mut options = vec![
        ("depends_on".to_owned(), list(2)),
        ("replace_with".to_owned(), list(3)),
    ];
    options.extend(
        in_way(4)
            .first()
            .map(|to| ("parent".to_owned(), format!("{to:?}"))),
    );
    [inputs, options]
}

/// The document as YAML, with the resources in the given order.
fn yaml(drawn: &Drawn, order: &[usize]) -> String {
    let mut text = String::from("resources:\n");
    for &at in order {
        text.push_str(&format!("  {}:\n    kind: echo\n", drawn[at].0));
        for (what, members) in ["inputs", "options"].iter().zip(members(drawn, at)) {
            text.push_str(&format!("    {what}:\n"));
            for (name, value) in members {
                // References in block style need no quotes.
                let plain = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                let value = plain.filter(|plain| plain.starts_with("${")).unwrap_or(&value);
                text.push_str(&format!("      {name}: {value}\n"));
            }
        }
    }
    text
}

/// The document as JSON, with the resources in the given order.
fn json(drawn: &Drawn, order: &[usize]) -> String {
    let object = |members: Vec<(String, String)>| {
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{name:?}:{value}"))
            .collect();
        format!("{{{}}}", members.join(",\n\t"))
    };
    let resources = order.iter().map(|&at| {
        let [inputs, options] = members(drawn, at).map(object);
        let members = [("kind", "\"echo\""), ("inputs", &inputs), ("options", &options)];
        let members = members.map(|(name, value)| (name.to_owned(), value.to_owned()));
        (drawn[at].0.clone(), object(members.into()))
    });
    object(vec![("resources".to_owned(), object(resources.collect()))])
}

/// Deploys a document. Returns the order of creates and the recorded entries.
fn deployed(text: &str, seed: u64) -> (Vec<String>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let harness = Harness::new(seed).await;
        let echo = Echo::default();
        let source = source(text, &[], None).await.unwrap();
        let report = harness
            .run(Operation::Update(Box::new(source)), run(&harness, &echo))
            .await;
        assert!(report.succeeded(), "{report:?}\n{text}");
        assert_eq!(harness.complaints(), Vec::<String>::new());
        let entries = harness.keys().into_iter().map(|name| {
            let entry = harness.entry(&name).unwrap();
            let inputs = entry.inputs.clone().unwrap();
            let references: Vec<(String, Dependency)> = entry
                .references()
                .map(|reference| (format!("{:?}", reference.field), reference.to))
                .collect();
            format!("{name} {} {references:?}", inputs.json().as_str())
        });
        (echo.made(), entries.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Each resource is created after its dependencies, in whatever order the document lists the resources. The JSON
    /// form records the same entries as the YAML form.
    #[test]
    fn resources_follow_dependencies_in_yaml_and_json(
        (drawn, order) in any_program().prop_flat_map(|drawn| {
            let order: Vec<usize> = (0..drawn.len()).collect();
            (Just(drawn), Just(order).prop_shuffle())
        }),
        seed in any::<u64>(),
    ) {
        let text = yaml(&drawn, &order);
        let (made, recorded) = deployed(&text, seed);
        prop_assert_eq!(made.len(), drawn.len());
        let place = |name: &str| made.iter().position(|made| made == name);
        for (name, needs) in &drawn {
            for (to, way) in needs {
                // Only the first of several parents is used.
                let parent = needs.iter().find(|(_, way)| *way == 4).map(|(to, _)| *to);
                if *way != 4 || parent == Some(*to) {
                    prop_assert!(place(&drawn[*to].0) < place(name), "{} before {}: {:?}\n{}", name, drawn[*to].0, made, text);
                }
            }
        }
        let json = json(&drawn, &order);
        let (_, of_json) = deployed(&json, seed);
        prop_assert_eq!(recorded, of_json, "{}\n{}", text, json);
    }
}

//! Generates valid states with all known fields and some unknown ones.

use super::support::{SIGNATURE, secret, urn};
use super::text::NUMBER;
use crate::properties::generate::Choices;
use serde_json::{Map, Value, json};

const TEXTS: [&str; 7] = ["", "plain", "ünï", "a\"b\\c", "nl\n\t", "<&>\u{2028}", "\u{1}"];
const NUMBERS: [&str; 6] = ["0", "-1", "0.10", "12345678901234567890", "1e30", "1.0"];
const TYPES: [&str; 4] = [
    "aws:s3/bucket:Bucket",
    "random:index/randomPassword:RandomPassword",
    "kubernetes:core/v1:Service",
    "pulumi-nodejs:dynamic:Resource",
];
const OPERATIONS: [&str; 5] = ["creating", "updating", "deleting", "reading", "importing"];
/// Signatures of special values, each with a valid member.
const SPECIAL: [(&str, &str, &str); 5] = [
    ("c44067f5952c0a294b673a41bacd8c17", "text", "hello"),
    ("0def7320c3a5731c473e5ecbe6d01bc7", "path", "./dir"),
    (
        "5cf8f73096256a8f31e491e813e4eb8e",
        "urn",
        "urn:pulumi:dev::shop::aws:s3/bucket:Bucket::b",
    ),
    ("803fd3297a5875dc03ca845dda5d2a98", "value", "/w=="),
    (
        "8ad145fe-0d11-4827-bfd7-1abcbf086f5c",
        "value",
        "7ff8000000000001",
    ),
];
const UNKNOWN: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/// True in one of three cases.
fn yes(choices: &mut Choices) -> bool {
    choices.below(3) == 2
}

fn of<'a>(choices: &mut Choices, pool: &[&'a str]) -> &'a str {
    pool[choices.below(pool.len())]
}

fn value(choices: &mut Choices, depth: usize) -> Value {
    match choices.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => of(choices, &TEXTS).into(),
        2 => format!("{NUMBER}{}", of(choices, &NUMBERS)).into(),
        3 => true.into(),
        4 => UNKNOWN.into(),
        5 => secret(of(choices, &["v1:AAAA:BBBB", "v1:CCCC:DDDD"])),
        6 => {
            let (signature, key, text) = SPECIAL[choices.below(SPECIAL.len())];
            json!({SIGNATURE: signature, key: text})
        }
        7 => (0..choices.below(3)).map(|_| value(choices, depth - 1)).collect(),
        _ => properties(choices, depth - 1),
    }
}

fn properties(choices: &mut Choices, depth: usize) -> Value {
    let mut members = Map::new();
    for _ in 0..choices.below(4) {
        let key = of(choices, &["a", "b", "id", "z~/", "<k>", "password"]).to_owned();
        members.insert(key, value(choices, depth));
    }
    members.into()
}

/// Chooses up to two of the texts; both may be equal.
fn some(choices: &mut Choices, pool: &[String]) -> Vec<String> {
    let count = if pool.is_empty() { 0 } else { choices.below(3) };
    (0..count)
        .map(|_| pool[choices.below(pool.len())].clone())
        .collect()
}

/// A state under construction.
struct Build {
    resources: Vec<Value>,
    urns: Vec<String>,
    providers: Vec<String>,
}

impl Build {
    fn add(&mut self, resource: Map<String, Value>) {
        if let Some(Value::String(urn)) = resource.get("urn") {
            self.urns.push(urn.clone());
        }
        self.resources.push(resource.into());
    }

    fn references(&self, choices: &mut Choices, resource: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| resource.insert(key.to_owned(), value);
        if !self.urns.is_empty() && yes(choices) {
            set("parent", self.urns[choices.below(self.urns.len())].clone().into());
        }
        let list = some(choices, &self.urns);
        if !list.is_empty() {
            set("dependencies", list.into());
        }
        if yes(choices) {
            let mut lists = Map::new();
            for key in ["a", "b"] {
                let list = some(choices, &self.urns);
                let null = list.is_empty() && yes(choices);
                lists.insert(key.to_owned(), if null { Value::Null } else { list.into() });
            }
            set("propertyDependencies", lists.into());
        }
        if !self.urns.is_empty() && choices.below(5) == 4 {
            set(
                "deletedWith",
                self.urns[choices.below(self.urns.len())].clone().into(),
            );
        }
        let list = some(choices, &self.urns);
        if !list.is_empty() && choices.below(5) == 4 {
            set("replaceWith", list.into());
        }
    }

    fn resource(&self, choices: &mut Choices, name: &str) -> Map<String, Value> {
        let custom = choices.below(4) != 3;
        let kind = if custom {
            of(choices, &TYPES)
        } else {
            "my:index:Component"
        };
        let mut resource = Map::new();
        let mut set = |key: &str, value: Value| resource.insert(key.to_owned(), value);
        set("urn", urn(kind, name).into());
        set("custom", custom.into());
        set("type", kind.into());
        if custom {
            set("id", format!("id-{name}").into());
            if !self.providers.is_empty() && yes(choices) {
                set(
                    "provider",
                    self.providers[choices.below(self.providers.len())].clone().into(),
                );
            }
        }
        for key in ["inputs", "outputs"] {
            match choices.below(4) {
                0 => {}
                1 => drop(set(key, Value::Null)),
                _ => drop(set(key, properties(choices, 2))),
            }
        }
        for key in [
            "protect",
            "taint",
            "external",
            "retainOnDelete",
            "refreshBeforeUpdate",
            "pendingReplacement",
        ] {
            match choices.below(12) {
                10 => drop(set(key, true.into())),
                11 => drop(set(key, false.into())),
                _ => {}
            }
        }
        self.references(choices, &mut resource);
        others(choices, &mut resource);
        resource
    }
}

/// Adds further fields, most of which the model doesn't have.
fn others(choices: &mut Choices, resource: &mut Map<String, Value>) {
    let known: [(&str, Value); 15] = [
        ("initErrors", json!(["it broke"])),
        ("additionalSecretOutputs", json!(["a", "none"])),
        ("aliases", json!([urn("aws:s3/bucket:Bucket", "older")])),
        (
            "customTimeouts",
            json!({"create": 60, "update": format!("{NUMBER}1.50"), "delete": 3}),
        ),
        ("importID", json!("i-1")),
        ("created", json!("2026-01-02T03:04:05.000000001Z")),
        ("modified", json!("2026-01-02T03:04:05+02:00")),
        ("sourcePosition", json!("project:///index.ts#12,1")),
        ("stackTrace", json!([{"sourcePosition": "project:///a.ts#1,1"}])),
        ("ignoreChanges", json!(["a.b"])),
        ("replacementTrigger", secret("v1:EEEE:FFFF")),
        (
            "resourceHooks",
            json!({"afterCreate": ["hook"], "beforeDelete": []}),
        ),
        ("x_future", json!({"z": 1, "a": [null]})),
        ("y_future", Value::Null),
        ("viewOf", json!(urn("aws:s3/bucket:Bucket", "viewed"))),
    ];
    for (key, value) in known {
        if choices.below(6) == 5 {
            resource.insert(key.to_owned(), value);
        }
    }
}

fn provider(choices: &mut Choices, build: &mut Build, name: &str) {
    let urn = urn("pulumi:providers:aws", name);
    for (id, delete) in [("old", true), ("new", false)] {
        if delete && !yes(choices) {
            continue;
        }
        let mut resource = Map::new();
        resource.insert("urn".to_owned(), urn.clone().into());
        resource.insert("custom".to_owned(), true.into());
        resource.insert("id".to_owned(), id.into());
        resource.insert("type".to_owned(), "pulumi:providers:aws".into());
        if delete {
            resource.insert("delete".to_owned(), true.into());
        }
        build.add(resource);
        build.providers.push(format!("{urn}::{id}"));
    }
}

/// Generates the resources of a valid state.
pub(crate) fn resources(choices: &mut Choices) -> Vec<Value> {
    let mut build = Build {
        resources: Vec::new(),
        urns: Vec::new(),
        providers: Vec::new(),
    };
    if choices.below(4) != 3 {
        let mut root = Map::new();
        root.insert("urn".to_owned(), super::support::STACK.into());
        root.insert("custom".to_owned(), false.into());
        root.insert("type".to_owned(), "pulumi:pulumi:Stack".into());
        if yes(choices) {
            root.insert("outputs".to_owned(), properties(choices, 2));
        }
        build.add(root);
    }
    for name in ["east", "west"] {
        if choices.below(3) != 0 {
            provider(choices, &mut build, name);
        }
    }
    for number in 0..choices.below(7) {
        let name = format!("r{number}");
        let resource = build.resource(choices, &name);
        // Before the resource, add resources with the same URN and `delete: true`, some of them with the same id.
        for _ in 0..choices.below(4).saturating_sub(1) {
            let mut twin = resource.clone();
            twin.insert("delete".to_owned(), true.into());
            if yes(choices) && twin.contains_key("id") {
                twin.insert("id".to_owned(), of(choices, &["gone-1", "gone-2"]).into());
            }
            build.add(twin);
        }
        build.add(resource);
    }
    build.resources
}

/// Generates a whole document in one of its forms.
pub(crate) fn document(choices: &mut Choices) -> Value {
    let resources = resources(choices);
    let mut deployment = Map::new();
    let mut set = |key: &str, value: Value| deployment.insert(key.to_owned(), value);
    let magic = "3ff53efef69f38d19e364655131bbb113e416d3bf64bfb819065fa12acb29250";
    set(
        "manifest",
        json!({"time": "2026-01-02T03:04:05Z", "magic": magic, "version": "v3.100.0"}),
    );
    if yes(choices) {
        set(
            "secrets_providers",
            json!({"type": "cloud", "state": {"url": "awskms://k", "encryptedkey": "AAAA"}}),
        );
    }
    if let Some(resource) = resources.last()
        && yes(choices)
    {
        let operations: Vec<Value> = (0..=choices.below(2))
            .map(|_| json!({"resource": resource, "type": of(choices, &OPERATIONS)}))
            .collect();
        set("pending_operations", operations.into());
    }
    if !resources.is_empty() || yes(choices) {
        set("resources", resources.into());
    }
    if yes(choices) {
        set(
            "metadata",
            json!({"integrity_error": {"version": "v3.1", "command": "up"}}),
        );
        set("snippets", json!([{"uuid": "u-1"}]));
        set("extensions", json!({"e": {"b": 1, "a": "AAAA"}}));
    }
    match choices.below(4) {
        0 => json!({"version": 3, "deployment": deployment}),
        1 => json!({"version": 4, "features": ["taint", "views"], "deployment": deployment}),
        2 => {
            let version = 1 + choices.below(3);
            json!({"version": version, "checkpoint": {"stack": "organization/shop/dev", "latest": deployment}})
        }
        _ => {
            json!({"stack": "dev", "config": {"shop:key": {"secure": "v1:AAAA:BBBB"}}, "latest": deployment})
        }
    }
}

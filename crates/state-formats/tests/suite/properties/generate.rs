//! Generates states with all known fields and some unknown ones, in Terraform's order.

use super::node::Node;
use std::collections::{BTreeMap, BTreeSet};

/// The random choices of a generator. When the tape is used up, all further choices are 0, which gives the simplest
/// values.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    tape: std::vec::IntoIter<u8>,
}

impl Choices {
    pub(crate) fn new(tape: Vec<u8>) -> Self {
        Self {
            tape: tape.into_iter(),
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.tape.next().unwrap_or(0)) % bound
    }

    fn yes(&mut self) -> bool {
        self.below(3) == 2
    }

    fn of<'a>(&mut self, pool: &[&'a str]) -> &'a str {
        pool[self.below(pool.len())]
    }
}

const TEXTS: [&str; 8] = [
    "",
    "plain",
    "ünï",
    "a\"b\\c",
    "nl\n\t",
    "<&>\u{2028}",
    "${x}%{y}",
    "\u{1}",
];
const NUMBERS: [&str; 6] = ["0", "-1", "0.1", "12345678901234567890", "1e30", "1.0"];
const NAMES: [&str; 6] = ["a", "b", "id", "type", "value", "z~/"];
const PROVIDERS: [&str; 4] = [
    "provider[\"registry.terraform.io/hashicorp/aws\"]",
    "module.m.provider[\"terraform.io/builtin/terraform\"].west",
    "provider.null",
    "provider[\"registry.opentofu.org/hashicorp/aws\"].by_region[\"eu\"]",
];
/// The groups: module, mode, type and name. Each group may depend on the earlier groups.
const GROUPS: [(&str, &str, &str, &str); 5] = [
    ("", "managed", "t", "base"),
    ("", "data", "t", "read"),
    ("m", "managed", "t", "mid"),
    ("", "managed", "u", "side"),
    ("", "managed", "a", "top"),
];

fn value(choices: &mut Choices, depth: usize) -> Node {
    match choices.below(if depth == 0 { 4 } else { 7 }) {
        0 => Node::raw("null"),
        1 => Node::text(choices.of(&TEXTS)),
        2 => Node::raw(choices.of(&NUMBERS)),
        3 => Node::raw("true"),
        4 => Node::Array((0..choices.below(3)).map(|_| value(choices, depth - 1)).collect()),
        5 => wrapped(choices),
        _ => object(choices, depth - 1),
    }
}

/// The wrapper that Terraform writes around a value of dynamic type: the only object whose keys aren't sorted.
fn wrapped(choices: &mut Choices) -> Node {
    let (value, kind) = match choices.below(3) {
        0 => (Node::text(choices.of(&TEXTS)), Node::text("string")),
        1 => (Node::raw("null"), Node::text("dynamic")),
        _ => {
            let kind = Node::Array(vec![Node::text("tuple"), Node::Array(vec![Node::text("number")])]);
            (Node::Array(vec![Node::raw(choices.of(&NUMBERS))]), kind)
        }
    };
    let mut members = vec![("value".to_owned(), value), ("type".to_owned(), kind)];
    if choices.yes() {
        // Terraform sorts the keys of a real object with exactly these two fields.
        members.reverse();
    }
    Node::Object(members)
}

fn object(choices: &mut Choices, depth: usize) -> Node {
    let names: BTreeSet<_> = (0..choices.below(4)).map(|_| choices.of(&NAMES)).collect();
    let members: Vec<_> = names
        .into_iter()
        .map(|name| (name.to_owned(), value(choices, depth)))
        .collect();
    let mut node = Node::Object(members);
    // A random object may look like a wrapper with sorted keys, which is valid too.
    if let Node::Object(all) = &mut node {
        all.sort_by(|a, b| a.0.cmp(&b.0));
    }
    node
}

/// Adds unknown fields after the others, in sorted order.
fn unknown(choices: &mut Choices, object: &mut Vec<(String, Node)>) {
    for name in ["x_future", "y_future"] {
        if choices.yes() {
            let node = match choices.below(3) {
                0 => Node::raw("null"),
                1 => Node::raw("1.50"),
                _ => Node::Array(vec![Node::text(choices.of(&TEXTS))]),
            };
            object.push((name.to_owned(), node));
        }
    }
}

/// Generates a whole state.
pub(crate) fn state(choices: &mut Choices) -> Node {
    let mut top = vec![
        ("version".to_owned(), Node::raw(&4)),
        (
            "terraform_version".to_owned(),
            Node::text(choices.of(&["1.11.4", "", "1.12.0-beta1"])),
        ),
        ("serial".to_owned(), Node::raw(&7)),
        ("lineage".to_owned(), Node::text(choices.of(&["l", "", "ünï<"]))),
        ("outputs".to_owned(), outputs(choices)),
        ("resources".to_owned(), resources(choices)),
    ];
    match choices.below(4) {
        0 => top.push(("check_results".to_owned(), Node::raw("null"))),
        1 => top.push(("check_results".to_owned(), Node::Array(Vec::new()))),
        2 => top.push(("check_results".to_owned(), Node::Array(vec![check(choices)]))),
        _ => {}
    }
    unknown(choices, &mut top);
    Node::Object(top)
}

fn check(choices: &mut Choices) -> Node {
    let text = |key: &str, value: &str| (key.to_owned(), Node::text(value));
    let mut object = vec![text("object_addr", "check.c"), text("status", "fail")];
    if choices.yes() {
        object.push((
            "failure_messages".to_owned(),
            Node::Array(vec![Node::text("<no>")]),
        ));
    }
    let objects = if choices.yes() {
        Node::raw("null")
    } else {
        Node::Array(vec![Node::Object(object)])
    };
    Node::Object(vec![
        text("object_kind", "check"),
        text("config_addr", "check.c"),
        text("status", "fail"),
        ("objects".to_owned(), objects),
    ])
}

fn outputs(choices: &mut Choices) -> Node {
    let mut outputs = BTreeMap::new();
    for _ in 0..choices.below(3) {
        let (value, kind) = match choices.below(3) {
            0 => (Node::text(choices.of(&TEXTS)), Node::text("string")),
            1 => (Node::raw("null"), Node::text("dynamic")),
            _ => {
                let number = Node::raw(choices.of(&NUMBERS));
                let kind = Node::Array(vec![Node::text("map"), Node::text("number")]);
                (Node::Object(vec![("k".to_owned(), number)]), kind)
            }
        };
        let mut output = vec![("value".to_owned(), value), ("type".to_owned(), kind)];
        if choices.yes() {
            output.push(("sensitive".to_owned(), Node::raw("true")));
        }
        unknown(choices, &mut output);
        outputs.insert(
            choices.of(&["o", "p", "/odd~", "ü"]).to_owned(),
            Node::Object(output),
        );
    }
    Node::Object(outputs.into_iter().collect())
}

fn resources(choices: &mut Choices) -> Node {
    let mut resources = BTreeMap::new();
    for (rank, (module, mode, kind, name)) in GROUPS.into_iter().enumerate() {
        let modules: &[&str] = match module {
            "" => &[""],
            _ => &["module.m[\"a\\\"b$${c}\"]", "module.m[0].module.n", "module.m"],
        };
        for module in modules {
            if choices.below(2) == 1 {
                let mut fields = Vec::new();
                if !module.is_empty() {
                    fields.push(("module".to_owned(), Node::text(module)));
                }
                for (key, text) in [
                    ("mode", mode),
                    ("type", kind),
                    ("name", name),
                    ("provider", choices.of(&PROVIDERS)),
                ] {
                    fields.push((key.to_owned(), Node::text(text)));
                }
                fields.push(("instances".to_owned(), instances(choices, rank)));
                unknown(choices, &mut fields);
                resources.insert((*module, mode, kind, name), Node::Object(fields));
            }
        }
    }
    Node::Array(resources.into_values().collect())
}

fn instances(choices: &mut Choices, rank: usize) -> Node {
    let mut instances = BTreeMap::new();
    for _ in 0..choices.below(4) {
        let key = match choices.below(3) {
            0 => (0, 0, ""),
            1 => (1, choices.below(12), ""),
            _ => (2, 0, choices.of(&TEXTS)),
        };
        let deposed = if choices.yes() {
            choices.of(&["00000001", "deadbeef"])
        } else {
            ""
        };
        let node = instance(choices, key, deposed, rank);
        instances.insert((key, deposed), node);
    }
    Node::Array(instances.into_values().collect())
}

fn instance(choices: &mut Choices, key: (u8, usize, &str), deposed: &str, rank: usize) -> Node {
    let mut fields = Vec::new();
    let mut push = |name: &str, node: Node| fields.push((name.to_owned(), node));
    match key {
        (0, ..) => {}
        (1, number, _) => push("index_key", Node::raw(&number)),
        (_, _, text) => push("index_key", Node::text(text)),
    }
    if choices.yes() {
        push("status", Node::text("tainted"));
    }
    if !deposed.is_empty() {
        push("deposed", Node::text(deposed));
    }
    push("schema_version", Node::raw(&choices.below(3)));
    match choices.below(4) {
        0 => {}
        1 => push(
            "attributes_flat",
            Node::Object(vec![
                ("a.%".to_owned(), Node::text("1")),
                ("id".to_owned(), Node::text("i")),
            ]),
        ),
        _ => push("attributes", object(choices, 3)),
    }
    if choices.below(2) == 1 {
        let paths = (0..choices.below(3)).map(|_| path(choices)).collect();
        push("sensitive_attributes", Node::Array(paths));
    }
    if choices.yes() {
        push("identity_schema_version", Node::raw(&0));
        push("identity", Node::Object(vec![("id".to_owned(), Node::text("i"))]));
    }
    if choices.yes() {
        push("private", Node::text(choices.of(&["bnVsbA==", ""])));
    }
    if choices.below(2) == 1 {
        push("dependencies", dependencies(choices, rank));
    }
    if choices.yes() {
        push("create_before_destroy", Node::raw(choices.of(&["true", "false"])));
    }
    if choices.yes() {
        push("skip_destroy", Node::raw("true"));
    }
    unknown(choices, &mut fields);
    Node::Object(fields)
}

fn path(choices: &mut Choices) -> Node {
    let step = |kind: &str, value: Node| {
        Node::Object(vec![
            ("type".to_owned(), Node::text(kind)),
            ("value".to_owned(), value),
        ])
    };
    let mut steps = vec![step("get_attr", Node::text(choices.of(&NAMES)))];
    if choices.yes() {
        let (value, kind) = match choices.below(2) {
            0 => (Node::raw(&choices.below(3)), "number"),
            _ => (Node::text(choices.of(&TEXTS)), "string"),
        };
        let index = vec![("value".to_owned(), value), ("type".to_owned(), Node::text(kind))];
        steps.push(step("index", Node::Object(index)));
    }
    Node::Array(steps)
}

/// Generates a dependency list with some or all of the earlier groups, sometimes with a missing group or unsorted.
fn dependencies(choices: &mut Choices, rank: usize) -> Node {
    let all = choices.yes();
    let mut names = BTreeSet::new();
    for (module, mode, kind, name) in &GROUPS[..rank] {
        if all || choices.below(2) == 1 {
            let module = if module.is_empty() { "" } else { "module.m." };
            let mode = if *mode == "data" { "data." } else { "" };
            names.insert(format!("{module}{mode}{kind}.{name}"));
        }
    }
    if choices.yes() {
        names.insert("gone.away".to_owned());
    }
    let mut names: Vec<_> = names.into_iter().collect();
    if choices.yes() {
        names.reverse();
    }
    Node::Array(names.iter().map(|name| Node::text(name)).collect())
}

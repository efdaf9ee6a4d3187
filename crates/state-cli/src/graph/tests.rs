//! Tests of the dependency graph and its drawings.

use super::{Graph, GroupBy, Link, NODES, drawing, tree};
use crate::render::Page;
use state_core::{Address, Dependency, Entry, SharedEntry};

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn entry(name: &str, on: &[&str]) -> SharedEntry {
    let mut entry = Entry::leaf(address(name), "aws_thing");
    entry.depends_on = on.iter().map(|name| Dependency::Entry(address(name))).collect();
    entry.into()
}

/// A state in which `dns` depends on `lb`, `lb` on three instances, and these on `net`; `other` is separate.
fn shop() -> Vec<SharedEntry> {
    vec![
        entry("net", &[]),
        entry("module.web.i[0]", &["net"]),
        entry("module.web.i[1]", &["net"]),
        entry("module.web.i[2]", &["net"]),
        entry("lb", &["module.web.i[0]", "module.web.i[1]", "module.web.i[2]"]),
        entry("dns", &["lb"]),
        entry("other", &[]),
    ]
}

fn drawn(graph: &Graph, print: impl Fn(&mut Page, &Graph)) -> String {
    let mut page = Page::new(false);
    print(&mut page, graph);
    page.finish()
}

fn near(center: &str, depth: usize) -> Graph {
    let graph = Graph::of(&shop(), GroupBy::Module, Some(&address(center))).unwrap();
    graph.around(depth)
}

fn names(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(super::Node::label).collect()
}

#[test]
fn instances_of_one_declaration_are_one_node() {
    let graph = Graph::of(&shop(), GroupBy::Module, None).unwrap();
    assert_eq!(names(&graph), ["dns", "lb", "module.web.i x3", "net", "other"]);
    assert_eq!(
        drawn(&graph, tree::print),
        "(root)\n├─ dns  → lb\n├─ lb  → module.web.i x3\n├─ net\n└─ other\nmodule.web\n└─ module.web.i x3  → net\n"
    );
}

#[test]
fn neighbourhood_follows_edges_in_one_direction() {
    assert_eq!(names(&near("lb", 1)), ["dns", "lb", "module.web.i x3"]);
    assert_eq!(names(&near("lb", 2)), ["dns", "lb", "module.web.i x3", "net"]);
    assert_eq!(names(&near("lb", 0)), ["lb"]);
    // Other dependents of a dependency aren't part of the neighbourhood.
    assert_eq!(
        names(&near("module.web.i[1]", 1)),
        ["lb", "module.web.i[1]", "net"]
    );
    assert_eq!(names(&near("module.web.i", 1)), ["lb", "module.web.i x3", "net"]);
    assert!(Graph::of(&shop(), GroupBy::Module, Some(&address("nothing"))).is_none());
}

#[test]
fn tree_shows_dependencies_and_dependents() {
    assert_eq!(
        drawn(&near("lb", 2), tree::print),
        "lb\nneeds\n└─ module.web.i x3\n   └─ net\nneeded by\n└─ dns\n"
    );
}

#[test]
fn tree_expands_each_node_once() {
    // The number of paths doubles with each level, but the number of lines must not.
    let mut entries = vec![entry("l0a", &[]), entry("l0b", &[])];
    for level in 1..40 {
        let below = [format!("l{}a", level - 1), format!("l{}b", level - 1)];
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        entries.push(entry(&format!("l{level}a"), &below));
        entries.push(entry(&format!("l{level}b"), &below));
    }
    let graph = Graph::of(&entries, GroupBy::Type, Some(&address("l39a"))).unwrap();
    let text = drawn(&graph.clone().around(100), tree::print);
    assert!(text.lines().count() < 200, "{text}");
    assert!(text.contains("(see above)"));
}

#[test]
fn nearest_nodes_are_kept_above_the_limit() {
    let mut entries = vec![entry("hub", &[])];
    for number in 0..300 {
        entries.push(entry(&format!("near{number:03}"), &["hub"]));
    }
    let graph = Graph::of(&entries, GroupBy::Module, Some(&address("hub"))).unwrap();
    let scoped = graph.clone().around(5);
    assert_eq!((scoped.nodes.len(), scoped.omitted), (NODES, 101));
    assert_eq!(scoped.nodes[scoped.center.unwrap()].name, "hub");
}

#[test]
fn group_dependency_points_to_all_members() {
    let member = |name: &str| {
        let mut entry = Entry::clone(&entry(name, &[]));
        entry.group = Some(address("m.g"));
        SharedEntry::from(entry)
    };
    let mut user = Entry::clone(&entry("user", &[]));
    user.depends_on = vec![Dependency::Group(address("m.g"))];
    user.parent = Some(address("m[\"a\"].g"));
    let entries = [member("m[\"a\"].g"), member("m[\"b\"].g"), user.into()];
    let graph = Graph::of(&entries, GroupBy::Module, None).unwrap();
    assert_eq!(names(&graph), ["m.g x2", "user"]);
    assert_eq!(
        graph.edges.into_iter().collect::<Vec<_>>(),
        [(1, 0, Link::Needs), (1, 0, Link::PartOf)]
    );
    let graph = Graph::of(&entries, GroupBy::Module, Some(&address("m[\"a\"].g"))).unwrap();
    assert_eq!(
        graph.edges.len(),
        3,
        "the centre and the other instances are two nodes: {graph:?}"
    );
}

#[test]
fn names_are_escaped_in_drawings() {
    let entries = [
        entry(r#"a["x\"];b"]"#, &[]),
        entry(r#"c"]<img> #"#, &[r#"a["x\"];b"]"#]),
    ];
    let graph = Graph::of(&entries, GroupBy::Provider, None).unwrap();
    let dot = drawn(&graph, drawing::print_dot);
    assert!(dot.contains(r#""a[\"x\\\"];b\"]" [label="#), "{dot}");
    assert!(dot.contains(r#"label="aws";"#), "{dot}");
    let mermaid = drawn(&graph, drawing::print_mermaid);
    assert!(mermaid.contains("[\"c#quot;]#lt;img#gt; #35;\"]"), "{mermaid}");
    assert_eq!(mermaid.lines().filter(|line| line.contains("-->")).count(), 1);
}

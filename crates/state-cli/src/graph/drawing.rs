//! Prints the graph as source text for drawing programs: Graphviz DOT and Mermaid.

use super::{Graph, Link};
use crate::render::Page;

/// Prints the graph as Graphviz DOT.
pub(crate) fn print_dot(page: &mut Page, graph: &Graph) {
    page.line("digraph state {");
    page.line("  rankdir=LR;");
    page.line("  node [shape=box];");
    for (place, (group, nodes)) in graph.groups().into_iter().enumerate() {
        page.line(format_args!("  subgraph cluster_{place} {{"));
        page.line(format_args!("    label={};", dot(group)));
        for at in nodes {
            let node = &graph.nodes[at];
            let bold = if graph.center == Some(at) {
                ", style=bold"
            } else {
                ""
            };
            page.line(format_args!(
                "    {} [label={}{bold}];",
                dot(&node.name),
                dot(&node.label())
            ));
        }
        page.line("  }");
    }
    for &(from, to, link) in &graph.edges {
        let style = match link {
            Link::Needs => "",
            Link::PartOf => " [style=dashed, color=gray]",
        };
        let (from, to) = (&graph.nodes[from].name, &graph.nodes[to].name);
        page.line(format_args!("  {} -> {}{style};", dot(from), dot(to)));
    }
    page.line("}");
}

/// A quoted DOT string.
fn dot(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Prints the graph as a Mermaid flowchart.
pub(crate) fn print_mermaid(page: &mut Page, graph: &Graph) {
    page.line("flowchart LR");
    for (place, (group, nodes)) in graph.groups().into_iter().enumerate() {
        page.line(format_args!("  subgraph g{place}[{}]", mermaid(group)));
        for at in nodes {
            let node = &graph.nodes[at];
            page.line(format_args!("    {}[{}]", node.id, mermaid(&node.label())));
        }
        page.line("  end");
    }
    for &(from, to, link) in &graph.edges {
        let arrow = match link {
            Link::Needs => "-->",
            Link::PartOf => "-.->",
        };
        let (from, to) = (&graph.nodes[from].id, &graph.nodes[to].id);
        page.line(format_args!("  {from} {arrow} {to}"));
    }
    if let Some(center) = graph.center {
        page.line(format_args!(
            "  style {} stroke-width:3px",
            graph.nodes[center].id
        ));
    }
}

/// A quoted Mermaid string, with markup characters written as entities.
fn mermaid(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("#quot;"),
            '<' => quoted.push_str("#lt;"),
            '>' => quoted.push_str("#gt;"),
            '&' => quoted.push_str("#amp;"),
            '#' => quoted.push_str("#35;"),
            '`' => quoted.push_str("#96;"),
            '\\' => quoted.push_str("#92;"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

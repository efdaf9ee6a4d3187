//! Prints the graph as an indented tree for a terminal.

use super::Graph;
use crate::render::{Page, Style};
use std::collections::BTreeSet;

/// How many dependencies are named behind a node.
const NAMED: usize = 3;

/// Prints the dependencies and dependents of the centre as two trees. Without a centre, prints the groups, and behind each
/// node its first dependencies.
pub(crate) fn print(page: &mut Page, graph: &Graph) {
    match graph.center {
        Some(center) => print_around(page, graph, center),
        None => print_groups(page, graph),
    }
}

fn print_around(page: &mut Page, graph: &Graph, center: usize) {
    page.heading(&graph.nodes[center].label());
    for (heading, backwards) in [("needs", false), ("needed by", true)] {
        let neighbours = graph.neighbours(backwards);
        page.line(heading);
        if neighbours[center].is_empty() {
            page.line("└─ nothing");
            continue;
        }
        // The branches of each node are printed only once: a graph expanded as a tree can have exponential or, with cycles,
        // infinite size.
        let mut seen = BTreeSet::from([center]);
        let mut open: Vec<Branch> = branches(&neighbours[center], "");
        while let Some(Branch { at, lead, is_last }) = open.pop() {
            let is_new = seen.insert(at);
            let below = &neighbours[at];
            let again = if is_new || below.is_empty() {
                ""
            } else {
                " (see above)"
            };
            let joint = if is_last { "└─ " } else { "├─ " };
            page.line(format_args!("{lead}{joint}{}{again}", graph.nodes[at].label()));
            if is_new {
                let lead = format!("{lead}{}", if is_last { "   " } else { "│  " });
                open.extend(branches(below, &lead));
            }
        }
    }
}

struct Branch {
    at: usize,
    lead: String,
    is_last: bool,
}

/// The branches in reverse order, because the caller takes them from the end of a stack.
fn branches(nodes: &[usize], lead: &str) -> Vec<Branch> {
    let branches = nodes.iter().rev().enumerate();
    branches
        .map(|(from_end, &at)| Branch {
            at,
            lead: lead.to_owned(),
            is_last: from_end == 0,
        })
        .collect()
}

fn print_groups(page: &mut Page, graph: &Graph) {
    let needs = graph.neighbours(false);
    for (group, nodes) in graph.groups() {
        page.heading(group);
        for (place, &at) in nodes.iter().enumerate() {
            let joint = if place + 1 == nodes.len() {
                "└─ "
            } else {
                "├─ "
            };
            page.space(joint);
            page.styled(Style::Plain, &graph.nodes[at].label());
            let mut hint: Vec<String> = needs[at]
                .iter()
                .take(NAMED)
                .map(|&to| graph.nodes[to].label())
                .collect();
            if needs[at].len() > NAMED {
                hint.push(format!("{} more", needs[at].len() - NAMED));
            }
            if !hint.is_empty() {
                page.styled(Style::Dim, &format!("  → {}", hint.join(", ")));
            }
            page.space("\n");
        }
    }
}

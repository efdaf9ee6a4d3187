//! The graph as an indented tree: what a terminal shows best.

use super::Graph;
use crate::render::{Page, Style};
use std::collections::BTreeSet;

/// How many names a hint tells.
const TOLD: usize = 3;

/// Prints a graph around its centre as two trees, else its groups with a hint at what each node needs.
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
        // Each node's branches are printed once: a graph unfolded as a tree could be endless.
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

/// In the order in which a stack gives them back.
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
                .take(TOLD)
                .map(|&to| graph.nodes[to].label())
                .collect();
            if needs[at].len() > TOLD {
                hint.push(format!("{} more", needs[at].len() - TOLD));
            }
            if !hint.is_empty() {
                page.styled(Style::Dim, &format!("  → {}", hint.join(", ")));
            }
            page.space("\n");
        }
    }
}

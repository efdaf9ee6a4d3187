//! Dependencies: Terraform lists all ancestors of an instance, we keep those that say the rest.
//!
//! A node of the graph is a group (what configuration calls a resource), its edges are what its live members list. From
//! a list go the members that others of it reach; [`Expansion`] puts them back. Where that would give another list (it
//! isn't sorted, misses an ancestor, names its own group), the list is kept beside ours.

use super::draft::Draft;
use super::extension::KeptDependencies;
use crate::error::Result;
use state_core::{Address, Dependency, Entry, SharedEntry};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A group's number.
type Node = usize;

/// Groups and what they depend on.
#[derive(Default)]
struct Graph {
    numbers: HashMap<Address, Node>,
    /// The groups that a group's live members list, without itself; sorted, each once.
    listed: Vec<Vec<Node>>,
}

impl Graph {
    fn node(&mut self, group: &Address) -> Node {
        if let Some(&node) = self.numbers.get(group) {
            return node;
        }
        self.numbers.insert(group.clone(), self.listed.len());
        self.listed.push(Vec::new());
        self.listed.len() - 1
    }

    /// The nodes, each after what it lists; None if there is a cycle.
    fn order(&self) -> Option<Vec<Node>> {
        let mut users = vec![Vec::new(); self.listed.len()];
        let mut missing: Vec<_> = self.listed.iter().map(Vec::len).collect();
        for (node, listed) in self.listed.iter().enumerate() {
            for &dependency in listed {
                users[dependency].push(node);
            }
        }
        let mut order: Vec<Node> = (0..self.listed.len())
            .filter(|&node| missing[node] == 0)
            .collect();
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &user in &users[node] {
                missing[user] -= 1;
                if missing[user] == 0 {
                    order.push(user);
                }
            }
        }
        (order.len() == self.listed.len()).then_some(order)
    }
}

/// Gives every draft its dependencies, reduced where that loses nothing.
pub(super) fn settle(drafts: &mut [Draft]) -> Result<()> {
    let (graph, lists) = graph_of(drafts);
    let Some(order) = graph.order() else {
        // The cycle is for the topological order to report.
        for draft in drafts {
            let listed = draft.listed.as_deref().unwrap_or_default().to_vec();
            set(draft, listed, true)?;
        }
        return Ok(());
    };
    let reduced = reduce(&graph, &order, drafts, &lists);
    for (draft, reduced) in drafts.iter_mut().zip(reduced.of_each()) {
        let Some(listed) = draft.listed.take() else {
            continue;
        };
        let is_canonical = !listed.is_empty() && listed.is_sorted_by(|a, b| a < b);
        let own = draft.entry.group.as_ref();
        let keep = !reduced.is_closed || !is_canonical || listed.iter().any(|group| Some(group) == own);
        let short = reduced.kept.iter().map(|&at| listed[at].clone()).collect();
        draft.listed = Some(listed);
        set(draft, short, keep)?;
    }
    Ok(())
}

fn set(draft: &mut Draft, mut reduced: Vec<Address>, keep: bool) -> Result<()> {
    reduced.retain(|group| Some(group) != draft.entry.group.as_ref());
    let text = |groups: &[Address]| groups.iter().map(|group| group.as_str().to_owned()).collect();
    if let Some(listed) = draft.listed.take().filter(|_| keep) {
        draft.keep(KeptDependencies {
            listed: text(&listed),
            reduced: text(&reduced),
        })?;
    }
    draft.entry_mut().depends_on = reduced.into_iter().map(Dependency::Group).collect();
    Ok(())
}

/// Something for every draft, where many drafts have the same: each is stored once.
struct Few<T> {
    all: Vec<T>,
    /// Which one each draft has.
    which: Vec<usize>,
}

impl<T> Few<T> {
    fn of_each(&self) -> impl Iterator<Item = &T> {
        self.which.iter().map(|&which| &self.all[which])
    }
}

/// The graph, and every draft's list as nodes.
fn graph_of(drafts: &[Draft]) -> (Graph, Few<Vec<Node>>) {
    let mut graph = Graph::default();
    let mut lists = Few {
        all: Vec::new(),
        which: Vec::with_capacity(drafts.len()),
    };
    let mut known: HashMap<&[Address], usize> = HashMap::new();
    let mut seen = HashSet::new();
    for draft in drafts {
        let listed = draft.listed.as_deref().unwrap_or_default();
        let which = *known.entry(listed).or_insert_with(|| {
            let list: Vec<Node> = listed.iter().map(|group| graph.node(group)).collect();
            lists.all.push(list);
            lists.all.len() - 1
        });
        if let Some(group) = draft.entry.group.as_ref().filter(|_| draft.entry.is_live()) {
            let own = graph.node(group);
            if seen.insert((own, which)) {
                let others = lists.all[which].iter().copied().filter(|&node| node != own);
                graph.listed[own].extend(others);
            }
        }
        lists.which.push(which);
    }
    for listed in &mut graph.listed {
        listed.sort_unstable();
        listed.dedup();
    }
    (graph, lists)
}

/// What is left of one list.
struct Reduced {
    /// Indices into the list.
    kept: Vec<usize>,
    /// Whether the rest of the list, and nothing else, is reached from what is kept.
    is_closed: bool,
}

fn reduce(graph: &Graph, order: &[Node], drafts: &[Draft], lists: &Few<Vec<Node>>) -> Few<Reduced> {
    let mut rank = vec![0; graph.listed.len()];
    for (position, &node) in order.iter().enumerate() {
        rank[node] = position;
    }
    let own: Vec<_> = drafts
        .iter()
        .map(|draft| {
            draft
                .entry
                .group
                .as_ref()
                .and_then(|group| graph.numbers.get(group).copied())
        })
        .collect();
    // Lists of lower groups first: their short edges serve those above. Deposed objects serve nobody: last.
    let mut sequence: Vec<_> = (0..drafts.len()).collect();
    sequence.sort_by_key(|&at| (!drafts[at].entry.is_live(), own[at].map(|node| rank[node])));
    let mut walk = Walk {
        rank,
        short: vec![Vec::new(); graph.listed.len()],
        stamps: vec![(0, 0); graph.listed.len()],
        round: 0,
    };
    let mut known: HashMap<(Option<Node>, usize), usize> = HashMap::new();
    let mut reduced = Few {
        all: Vec::new(),
        which: vec![0; drafts.len()],
    };
    for at in sequence {
        let list = &lists.all[lists.which[at]];
        let which = *known.entry((own[at], lists.which[at])).or_insert_with(|| {
            reduced.all.push(walk.reduce(own[at], list));
            reduced.all.len() - 1
        });
        if let Some(node) = own[at].filter(|_| drafts[at].entry.is_live()) {
            walk.learn(node, list, &reduced.all[which]);
        }
        reduced.which[at] = which;
    }
    reduced
}

/// The reduction of one list after the other.
struct Walk {
    rank: Vec<usize>,
    /// The reduced edges of the groups that are done.
    short: Vec<Vec<Node>>,
    /// In which round a node was seen in the list, and reached.
    stamps: Vec<(u64, u64)>,
    round: u64,
}

impl Walk {
    fn reduce(&mut self, own: Option<Node>, list: &[Node]) -> Reduced {
        self.round += 1;
        for &node in list {
            self.stamps[node].0 = self.round;
        }
        let mut nearest: Vec<_> = (0..list.len()).filter(|&at| Some(list[at]) != own).collect();
        nearest.sort_by_key(|&at| std::cmp::Reverse(self.rank[list[at]]));
        let mut kept = Vec::new();
        for at in nearest {
            if self.stamps[list[at]].1 == self.round {
                continue;
            }
            kept.push(at);
            if !self.reach(own, list[at]) {
                let all = (0..list.len()).collect();
                return Reduced {
                    kept: all,
                    is_closed: false,
                };
            }
        }
        kept.sort_unstable();
        Reduced {
            kept,
            is_closed: true,
        }
    }

    /// Marks what is reached from a node; false as soon as that leaves the list.
    fn reach(&mut self, own: Option<Node>, from: Node) -> bool {
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            if self.stamps[node].1 == self.round || Some(node) == own {
                continue;
            }
            if self.stamps[node].0 != self.round {
                return false;
            }
            self.stamps[node].1 = self.round;
            open.extend_from_slice(&self.short[node]);
        }
        true
    }

    fn learn(&mut self, node: Node, list: &[Node], reduced: &Reduced) {
        for &at in &reduced.kept {
            if list[at] != node && !self.short[node].contains(&list[at]) {
                self.short[node].push(list[at]);
            }
        }
    }
}

/// Puts back what reduction took: all ancestors of an entry, by group.
pub(super) struct Expansion<'a> {
    /// What the live members of each group depend on, sorted.
    edges: HashMap<&'a Address, Vec<&'a Address>>,
    /// The group of each entry; empty if no entry depends on another but by its group.
    groups: HashMap<&'a Address, &'a Address>,
    /// The lists of one group: entries are asked for group by group.
    done: HashMap<&'a [Dependency], Vec<&'a Address>>,
    done_of: Option<&'a Address>,
}

impl<'a> Expansion<'a> {
    /// Over the entries of a snapshot.
    pub(super) fn over(entries: &'a [SharedEntry]) -> Self {
        let mut expansion = Self {
            edges: HashMap::new(),
            groups: HashMap::new(),
            done: HashMap::new(),
            done_of: None,
        };
        let grouped = || {
            entries
                .iter()
                .filter_map(|entry| Some((entry, entry.group.as_ref()?)))
        };
        let all = || entries.iter().flat_map(|entry| &entry.depends_on);
        if all().any(|to| matches!(to, Dependency::Entry(_))) {
            for (entry, group) in grouped() {
                expansion.groups.insert(&entry.address, group);
            }
        }
        for (entry, group) in grouped().filter(|(entry, _)| entry.is_live() && !entry.depends_on.is_empty()) {
            let known = expansion.edges.remove(group).unwrap_or_default();
            let targets = entry.depends_on.iter().map(|to| expansion.group_of(to));
            let targets = with(known, targets);
            expansion.edges.insert(group, targets);
        }
        expansion
    }

    fn group_of(&self, dependency: &'a Dependency) -> &'a Address {
        match dependency {
            Dependency::Group(group) => group,
            Dependency::Entry(address) => self.groups.get(address).copied().unwrap_or(address),
        }
    }

    /// The groups that an entry comes after, sorted, without its own.
    pub(super) fn of(&mut self, entry: &'a Entry) -> &[&'a Address] {
        if self.done_of != entry.group.as_ref() {
            self.done_of = entry.group.as_ref();
            self.done.clear();
        }
        let key = entry.depends_on.as_slice();
        if !self.done.contains_key(key) {
            let mut open: Vec<_> = entry.depends_on.iter().map(|to| self.group_of(to)).collect();
            let mut reached = BTreeSet::new();
            while let Some(group) = open.pop() {
                if entry.group.as_ref() != Some(group) && reached.insert(group) {
                    open.extend(self.edges.get(group).into_iter().flatten());
                }
            }
            self.done.insert(key, reached.into_iter().collect());
        }
        self.done.get(key).map_or(&[], Vec::as_slice)
    }
}

/// A sorted list with a few more in it, each once; no larger than it must be.
fn with<'a>(mut known: Vec<&'a Address>, more: impl Iterator<Item = &'a Address>) -> Vec<&'a Address> {
    for address in more {
        if let Err(at) = known.binary_search(&address) {
            known.reserve_exact(1);
            known.insert(at, address);
        }
    }
    known
}

//! Reduces Terraform's dependency lists, which name all ancestors of an instance, to direct dependencies.
//!
//! The nodes of the graph are groups (resources of the configuration); the edges of a group are the dependencies that
//! its live instances list. Members of a list that are reachable from other members are removed; [`Expansion`] restores
//! them. If the expansion gives a different list (the original isn't sorted, omits an ancestor or names its own group),
//! the original list is kept in the extension.

use super::facts::KeptDependencies;
use super::instance::Draft;
use crate::error::Result;
use foldhash::fast::RandomState;
use state_core::{Address, Dependency, Entry, SharedEntry};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Index of a group. A `u32` suffices, because a state of at most 1 GiB has fewer groups.
type Node = u32;

/// Lists of numbers, stored in two arrays. A state may have one list for each instance, and a vector for each list
/// would need several times the memory.
#[derive(Default)]
struct Lists {
    ends: Vec<usize>,
    items: Vec<u32>,
}

impl Lists {
    fn push(&mut self, list: impl IntoIterator<Item = u32>) {
        self.items.extend(list);
        self.ends.push(self.items.len());
    }

    fn get(&self, list: usize) -> &[u32] {
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start..self.ends[list]]
    }

    /// Index of the list that was pushed last.
    fn last(&self) -> Option<usize> {
        self.ends.len().checked_sub(1)
    }
}

/// The dependency graph of the groups.
struct Graph {
    nodes: usize,
    /// Lists of dependencies. Consecutive drafts (instances that are being imported) with equal lists share one list.
    lists: Lists,
    /// For each draft: the index of its list in `lists`, and its group.
    of_each: Vec<(usize, Option<Node>)>,
    /// Pairs of a group and the index of a list of one of its live instances. A pair represents the edges from the
    /// group to all members of the list. Sorted, without duplicates.
    edges: Vec<(Node, usize)>,
}

impl Graph {
    /// Builds the graph of the drafts.
    fn new(drafts: &[Draft]) -> Self {
        let mut numbers: HashMap<&Address, Node, RandomState> = HashMap::default();
        let mut number = |group| {
            let next = numbers.len() as Node;
            *numbers.entry(group).or_insert(next)
        };
        let mut lists = Lists::default();
        let mut of_each = Vec::with_capacity(drafts.len());
        let mut edges = Vec::new();
        let mut before: Option<&[Address]> = None;
        for draft in drafts {
            let listed = draft.listed.as_deref().unwrap_or_default();
            if before != Some(listed) {
                lists.push(listed.iter().map(&mut number));
                before = Some(listed);
            }
            let list = lists.last().unwrap_or_default();
            let own = draft.entry.group.as_ref().map(&mut number);
            if let Some(own) = own.filter(|&own| draft.entry.is_live() && edges.last() != Some(&(own, list)))
            {
                edges.push((own, list));
            }
            of_each.push((list, own));
        }
        edges.sort_unstable();
        edges.dedup();
        Self {
            nodes: numbers.len(),
            lists,
            of_each,
            edges,
        }
    }

    /// Iterates over the edges between different groups; an edge that is listed twice is returned twice.
    fn pairs(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        let of_list =
            |&(own, list): &(Node, usize)| self.lists.get(list).iter().map(move |&item| (own, item));
        self.edges
            .iter()
            .flat_map(of_list)
            .filter(|(own, item)| own != item)
    }

    /// The rank of each node in a topological order; None if there is a cycle.
    fn ranks(&self) -> Option<Vec<u32>> {
        let mut missing = vec![0_u32; self.nodes];
        // The nodes that depend on node n are `users[starts[n]..starts[n + 1]]`.
        let mut starts = vec![0_usize; self.nodes + 1];
        for (node, dependency) in self.pairs() {
            missing[node as usize] += 1;
            starts[dependency as usize + 1] += 1;
        }
        for node in 0..self.nodes {
            starts[node + 1] += starts[node];
        }
        let mut users = vec![0; starts[self.nodes]];
        let mut next = starts.clone();
        for (node, dependency) in self.pairs() {
            let at = &mut next[dependency as usize];
            users[*at] = node;
            *at += 1;
        }
        drop(next);
        let mut order: Vec<Node> = (0..self.nodes as Node)
            .filter(|&node| missing[node as usize] == 0)
            .collect();
        let mut ranks = vec![0; self.nodes];
        let mut done = 0;
        while let Some(&node) = order.get(done) {
            ranks[node as usize] = done as u32;
            done += 1;
            for &user in &users[starts[node as usize]..starts[node as usize + 1]] {
                missing[user as usize] -= 1;
                if missing[user as usize] == 0 {
                    order.push(user);
                }
            }
        }
        (order.len() == self.nodes).then_some(ranks)
    }
}

/// Sets the dependencies of all drafts to the reduced lists, and keeps the original lists that an expansion wouldn't
/// restore. If the graph has a cycle, no list is reduced.
pub(super) fn set_dependencies(drafts: &mut [Draft]) -> Result<()> {
    let Some(reduced) = reduce(drafts) else {
        // A graph with a cycle can't be reduced; sorting the entries reports the cycle later.
        for draft in drafts {
            let listed = draft.listed.as_deref().unwrap_or_default().to_vec();
            set_on_draft(draft, listed, true)?;
        }
        return Ok(());
    };
    for (at, draft) in drafts.iter_mut().enumerate() {
        let Some(listed) = draft.listed.take() else {
            continue;
        };
        let (kept, is_closed) = reduced.of(at);
        let is_canonical = !listed.is_empty() && listed.is_sorted_by(|a, b| a < b);
        let own = draft.entry.group.as_ref();
        let keep = !is_closed || !is_canonical || listed.iter().any(|group| Some(group) == own);
        let short = kept.iter().map(|&at| listed[at as usize].clone()).collect();
        draft.listed = Some(listed);
        set_on_draft(draft, short, keep)?;
    }
    Ok(())
}

fn set_on_draft(draft: &mut Draft, mut reduced: Vec<Address>, keep: bool) -> Result<()> {
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

/// The reduced lists of all drafts.
struct ReducedLists {
    /// The kept members of each list, as indices into the original list.
    kept: Lists,
    /// Whether the kept members reach the other members of the list and nothing else.
    is_closed: Vec<bool>,
    /// The index of the reduced list of each draft.
    which: Vec<u32>,
}

impl ReducedLists {
    /// The kept members of a draft's list, and whether they reach the other members and nothing else.
    fn of(&self, draft: usize) -> (&[u32], bool) {
        let which = self.which[draft] as usize;
        (self.kept.get(which), self.is_closed[which])
    }
}

/// Reduces the lists of all drafts; None if there is a cycle.
fn reduce(drafts: &[Draft]) -> Option<ReducedLists> {
    let graph = Graph::new(drafts);
    let rank = graph.ranks()?;
    // Reduce the lists in topological order of the groups, because reducing a list follows the already reduced edges
    // of its members. Deposed objects add no edges, so their lists are reduced last.
    let mut sequence: Vec<u32> = (0..drafts.len() as u32).collect();
    sequence.sort_by_key(|&at| {
        let own = graph.of_each[at as usize].1;
        (
            !drafts[at as usize].entry.is_live(),
            own.map(|node| rank[node as usize]),
        )
    });
    let mut reducer = Reducer {
        rank,
        short: vec![0..0; graph.nodes],
        edges: Vec::new(),
        stamps: vec![(0, 0); graph.nodes],
        round: 0,
    };
    let mut reduced = ReducedLists {
        kept: Lists::default(),
        is_closed: Vec::new(),
        which: vec![0; drafts.len()],
    };
    let mut before = None;
    for at in sequence {
        let (list, own) = graph.of_each[at as usize];
        let items = graph.lists.get(list);
        if before != Some((list, own)) {
            let (kept, is_closed) = reducer.reduce(own, items);
            reduced.kept.push(kept);
            reduced.is_closed.push(is_closed);
            before = Some((list, own));
        }
        let which = reduced.kept.last().unwrap_or_default();
        if let Some(node) = own.filter(|_| drafts[at as usize].entry.is_live()) {
            reducer.record_edges(node, items, reduced.kept.get(which));
        }
        reduced.which[at as usize] = which as u32;
    }
    Some(reduced)
}

/// Reduces one list after the other, in topological order of the groups.
struct Reducer {
    rank: Vec<u32>,
    /// The reduced edges of the finished groups, as ranges in `edges`.
    short: Vec<Range<usize>>,
    edges: Vec<Node>,
    /// The rounds in which each node was last listed and last reached.
    stamps: Vec<(u32, u32)>,
    round: u32,
}

impl Reducer {
    /// Reduces a list. Returns the kept members as indices into the list, and whether they reach the other members and
    /// nothing else.
    fn reduce(&mut self, own: Option<Node>, list: &[Node]) -> (Vec<u32>, bool) {
        self.round += 1;
        for &node in list {
            self.stamps[node as usize].0 = self.round;
        }
        let all = 0..list.len() as u32;
        let node = |at: u32| list[at as usize];
        let mut nearest: Vec<u32> = all.clone().filter(|&at| Some(node(at)) != own).collect();
        nearest.sort_by_key(|&at| std::cmp::Reverse(self.rank[node(at) as usize]));
        let mut kept = Vec::new();
        for at in nearest {
            if self.stamps[node(at) as usize].1 == self.round {
                continue;
            }
            kept.push(at);
            if !self.reach(own, node(at)) {
                return (all.collect(), false);
            }
        }
        kept.sort_unstable();
        (kept, true)
    }

    /// Marks all nodes that are reachable from a node. Returns false as soon as a reachable node isn't in the list.
    fn reach(&mut self, own: Option<Node>, from: Node) -> bool {
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            let (seen, reached) = &mut self.stamps[node as usize];
            if *reached == self.round || Some(node) == own {
                continue;
            }
            if *seen != self.round {
                return false;
            }
            *reached = self.round;
            open.extend_from_slice(&self.edges[self.short[node as usize].clone()]);
        }
        true
    }

    /// Adds the reduced edges of a group. The live members of a group are consecutive, so its edges are usually at the
    /// end of `edges` and can be extended in place.
    fn record_edges(&mut self, node: Node, list: &[Node], kept: &[u32]) {
        let short = &mut self.short[node as usize];
        if short.end != self.edges.len() {
            let start = self.edges.len();
            self.edges.extend_from_within(short.clone());
            *short = start..self.edges.len();
        }
        for &at in kept {
            let to = list[at as usize];
            if to != node && !self.edges[short.clone()].contains(&to) {
                self.edges.push(to);
                short.end += 1;
            }
        }
    }
}

/// Restores the full dependency lists: all ancestors of an entry, by group.
pub(super) struct Expansion<'a> {
    /// Dependencies of the live members of each group, sorted.
    edges: HashMap<&'a Address, Vec<&'a Address>, RandomState>,
    /// The group of each entry; empty if all dependencies name groups.
    groups: HashMap<&'a Address, &'a Address, RandomState>,
}

impl<'a> Expansion<'a> {
    /// Prepares the expansion for the entries of a snapshot.
    pub(super) fn over(entries: &'a [SharedEntry]) -> Self {
        let mut expansion = Self {
            edges: HashMap::default(),
            groups: HashMap::default(),
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
            let targets = merge_sorted(known, targets);
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

    /// All groups that an entry depends on directly or indirectly, sorted, without the entry's own group.
    fn ancestors(&self, entry: &'a Entry) -> Vec<&'a Address> {
        let mut open: Vec<_> = entry.depends_on.iter().map(|to| self.group_of(to)).collect();
        let mut reached = BTreeSet::new();
        while let Some(group) = open.pop() {
            if entry.group.as_ref() != Some(group) && reached.insert(group) {
                open.extend(self.edges.get(group).into_iter().flatten());
            }
        }
        reached.into_iter().collect()
    }
}

/// The expanded lists of one group at a time. Entries are expanded group by group, so the lists of one group suffice.
#[derive(Default)]
pub(super) struct ExpandedLists<'a> {
    lists: HashMap<&'a [Dependency], Vec<&'a Address>, RandomState>,
    group: Option<&'a Address>,
}

impl<'a> ExpandedLists<'a> {
    /// All groups that an entry depends on directly or indirectly, sorted, without the entry's own group.
    pub(super) fn of(&mut self, entry: &'a Entry, expansion: &Expansion<'a>) -> &[&'a Address] {
        if self.group != entry.group.as_ref() {
            self.group = entry.group.as_ref();
            self.lists.clear();
        }
        let list = self.lists.entry(entry.depends_on.as_slice());
        list.or_insert_with(|| expansion.ancestors(entry))
    }
}

/// Inserts addresses into a sorted list without duplicates, allocating no more than needed.
fn merge_sorted<'a>(
    mut known: Vec<&'a Address>,
    more: impl Iterator<Item = &'a Address>,
) -> Vec<&'a Address> {
    for address in more {
        if let Err(at) = known.binary_search(&address) {
            known.reserve_exact(1);
            known.insert(at, address);
        }
    }
    known
}

//! Generates states: resources that depend on earlier ones, with random instances.

use std::collections::BTreeSet;
use std::fmt::Write;

/// A pseudorandom generator (SplitMix64) that gives the same numbers on every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % bound as u64) as usize
    }
}

/// The resources of a state, sorted by name.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) resources: Vec<Resource>,
}

#[derive(Clone)]
pub(crate) struct Resource {
    /// For each instance the fields before its dependencies.
    pub(crate) instances: Vec<String>,
    /// Direct dependencies, as indices of earlier resources.
    parents: BTreeSet<usize>,
}

impl Plan {
    pub(crate) fn make(dice: &mut Dice) -> Self {
        let count = 3 + dice.below(8);
        let resources = (0..count).map(|at| {
            let parents = (0..at).filter(|_| dice.below(3) == 0).collect();
            let keyed = dice.below(2) == 1;
            let instances = if keyed { 1 + dice.below(4) } else { 1 };
            let instances = (0..instances)
                .map(|index| instance(dice, keyed.then_some(index)))
                .collect();
            Resource { instances, parents }
        });
        Self {
            resources: resources.collect(),
        }
    }

    /// The address of the resource at an index.
    pub(crate) fn address(&self, at: usize) -> String {
        format!("thing.r{at:02}")
    }

    /// The index of the resource with an address.
    pub(crate) fn named(&self, address: &str) -> Option<usize> {
        (0..self.resources.len()).find(|at| self.address(*at) == address)
    }

    /// All direct and indirect dependencies of a resource.
    pub(crate) fn ancestors(&self, at: usize) -> BTreeSet<usize> {
        let mut all = self.resources[at].parents.clone();
        for parent in &self.resources[at].parents {
            all.extend(self.ancestors(*parent));
        }
        all
    }

    /// The state as Terraform writes it: every instance lists all its ancestors.
    pub(crate) fn text(&self) -> String {
        let lists: Vec<_> = (0..self.resources.len()).map(|at| self.ancestors(at)).collect();
        self.text_with(&lists)
    }

    /// The state with the given dependency lists.
    pub(crate) fn text_with(&self, lists: &[BTreeSet<usize>]) -> String {
        let mut resources = Vec::new();
        for (at, resource) in self.resources.iter().enumerate() {
            let names: Vec<_> = lists[at]
                .iter()
                .map(|to| format!("\"{}\"", self.address(*to)))
                .collect();
            let list = match names.is_empty() {
                true => String::new(),
                false => format!(",\"dependencies\":[{}]", names.join(",")),
            };
            let instances: Vec<_> = resource
                .instances
                .iter()
                .map(|fields| format!("{{{fields}{list}}}"))
                .collect();
            resources.push(format!(
                r#"{{"mode":"managed","type":"thing","name":"r{at:02}","provider":"provider[\"registry.terraform.io/hashicorp/thing\"]","instances":[{}]}}"#,
                instances.join(",")
            ));
        }
        document(&resources)
    }
}

fn document(resources: &[String]) -> String {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"l","outputs":{{}},"resources":[{}],"check_results":null}}"#,
        resources.join(",")
    )
}

fn instance(dice: &mut Dice, index: Option<usize>) -> String {
    let mut fields = String::new();
    if let Some(index) = index {
        write!(fields, "\"index_key\":{index},").expect("writing to a string succeeds");
    }
    if dice.below(6) == 0 {
        fields.push_str("\"status\":\"tainted\",");
    }
    let number = dice.below(1000);
    write!(
        fields,
        r#""schema_version":{},"attributes":{{"id":"i-{number}","password":"hunter2","size":{number}.50}},"sensitive_attributes":[[{{"type":"get_attr","value":"password"}}]]"#,
        dice.below(3)
    )
    .expect("writing to a string succeeds");
    fields
}

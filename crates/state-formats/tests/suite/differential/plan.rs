//! What a state is about: resources that depend on earlier ones, and what each of its instances looks like.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Numbers that look random and are the same on every run (SplitMix64).
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

/// Resources; their names sort as they stand.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) resources: Vec<Resource>,
}

#[derive(Clone)]
pub(crate) struct Resource {
    /// The fields of each instance before its dependencies.
    pub(crate) instances: Vec<String>,
    /// Those that it was made to depend on; its ancestors are more.
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

    /// The address of a resource.
    pub(crate) fn address(&self, at: usize) -> String {
        format!("thing.r{at:02}")
    }

    /// The resource with an address.
    pub(crate) fn named(&self, address: &str) -> Option<usize> {
        (0..self.resources.len()).find(|at| self.address(*at) == address)
    }

    /// All that a resource depends on, directly or not.
    pub(crate) fn ancestors(&self, at: usize) -> BTreeSet<usize> {
        let mut all = self.resources[at].parents.clone();
        for parent in &self.resources[at].parents {
            all.extend(self.ancestors(*parent));
        }
        all
    }

    /// As Terraform writes it: every instance lists all its ancestors.
    pub(crate) fn text(&self) -> String {
        let lists: Vec<_> = (0..self.resources.len()).map(|at| self.ancestors(at)).collect();
        self.text_with(&lists)
    }

    /// The same with other dependencies.
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
        write!(fields, "\"index_key\":{index},").expect("a string takes all");
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
    .expect("a string takes all");
    fields
}

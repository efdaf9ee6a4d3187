//! Writes states of Terraform with `terraform_data` resources, without running `terraform apply`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::ops::Range;
use std::path::Path;

/// How many of the last resources nothing depends on.
pub(super) const FREE: usize = 400;

/// The address of a resource, by its place in the state.
pub(super) fn address(place: usize) -> String {
    format!("terraform_data.r{place:06}")
}

/// The address of a resource that no other resource depends on. Each round has other ones.
pub(super) fn free(size: usize, round: usize, which: usize) -> String {
    address(size - FREE + 4 * round + which)
}

/// Writes a state with `size` instances to a file. Every value depends on the serial.
pub(super) fn write(file: &Path, size: usize, serial: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    write!(
        out,
        concat!(
            "{{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": {},\n",
            "  \"lineage\": \"5b0c9a3e-7a34-4d09-9c4c-2f4cf0a4b1d6\",\n  \"outputs\": {{}},\n  \"resources\": [\n",
        ),
        serial
    )?;
    let mut numbers = Numbers(serial);
    for place in 0..size {
        resource(&mut out, &mut numbers, place, size)?;
        out.write_all(if place + 1 < size { b",\n" } else { b"\n" })?;
    }
    out.write_all(b"  ],\n  \"check_results\": null\n}\n")?;
    out.flush()
}

/// Writes a resource with one instance, in Terraform's layout. Its attributes hold the same object twice, as input and as
/// output, with the type of the object.
fn resource(out: &mut impl Write, numbers: &mut Numbers, place: usize, size: usize) -> Result<()> {
    let id = format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        numbers.next() >> 32,
        numbers.next() >> 48,
        numbers.next() >> 52,
        numbers.next() >> 52,
        numbers.next() >> 16
    );
    let object = object(numbers, place);
    write!(
        out,
        concat!(
            "    {{\n      \"mode\": \"managed\",\n      \"type\": \"terraform_data\",\n      \"name\": \"r{place:06}\",\n",
            "      \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \"instances\": [\n",
            "        {{\n          \"schema_version\": 0,\n          \"attributes\": {{\n            \"id\": \"{id}\",\n",
            "            \"input\": {object},\n            \"output\": {object},\n            \"triggers_replace\": null\n",
            "          }},\n          \"sensitive_attributes\": []"
        ),
        place = place,
        id = id,
        object = object
    )?;
    let ancestors: Vec<String> = ancestors(place, size)
        .into_iter()
        .map(|place| format!("            \"{}\"", address(place)))
        .collect();
    if !ancestors.is_empty() {
        let list = ancestors.join(",\n");
        write!(out, ",\n          \"dependencies\": [\n{list}\n          ]")?;
    }
    out.write_all(b"\n        }\n      ]\n    }")
}

/// The places of all resources that a resource depends on, directly or through others: Terraform lists them all. The first
/// hundredth depend on none, the others of the first tenth on up to two of these, and every other resource on one of the
/// latter.
fn ancestors(place: usize, size: usize) -> BTreeSet<usize> {
    let (roots, shared) = ((size - FREE) / 100, (size - FREE) / 10);
    let mut choices = Numbers(place as u64);
    let mut one_of = |places: Range<usize>| places.start + choices.next() as usize % places.len();
    if place < roots || roots == 0 {
        BTreeSet::new()
    } else if place < shared {
        BTreeSet::from([one_of(0..roots), one_of(0..roots)])
    } else {
        let needed = one_of(roots..shared);
        let mut all = ancestors(needed, size);
        all.insert(needed);
        all
    }
}

/// An object of a dynamic type: its value and its type. The keys are sorted, as Terraform writes them.
fn object(numbers: &mut Numbers, place: usize) -> String {
    let members = [
        ("cidr", format!("10.{}.{}.0/24", place % 250, place / 250 % 250)),
        (
            "digest",
            format!("sha256:{:016x}{:016x}", numbers.next(), numbers.next()),
        ),
        (
            "host",
            format!("host-{place:06}.eu-central-{}.example.org", numbers.next() % 3),
        ),
        (
            "image",
            format!("registry.example.org/base/{:08x}", numbers.next() >> 32),
        ),
        ("key", format!("{:016x}{:016x}", numbers.next(), numbers.next())),
        (
            "network",
            format!("network-{:016x}{:016x}", numbers.next(), numbers.next()),
        ),
        (
            "note",
            format!("change {:016x} by the nightly job", numbers.next()),
        ),
        ("office", format!("building-{:03}", numbers.next() % 1000)),
        ("owner", format!("team-{:08x}", numbers.next() >> 32)),
    ];
    let mut text = String::from("{\n              \"value\": {\n");
    let mut types = String::new();
    for (name, value) in &members {
        text.push_str(&format!("                \"{name}\": \"{value}\",\n"));
        types.push_str(&format!("                  \"{name}\": \"string\",\n"));
    }
    text.push_str(&format!(
        "                \"ports\": [\n                  80,\n                  {}\n                ],\n",
        8000 + numbers.next() % 1000
    ));
    text.push_str(&format!(
        "                \"size\": {}\n              }},\n",
        numbers.next() % 1000
    ));
    text.push_str("              \"type\": [\n                \"object\",\n                {\n");
    text.push_str(&types);
    text.push_str(concat!(
        "                  \"ports\": [\n                    \"tuple\",\n                    [\n",
        "                      \"number\",\n                      \"number\"\n                    ]\n",
        "                  ],\n                  \"size\": \"number\"\n                }\n              ]\n            }"
    ));
    text
}

/// Random numbers by `splitmix64`: the same for the same seed, on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE, free, write};
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn lists_are_complete_and_nothing_depends_on_edited_ones() {
        let file = std::env::temp_dir().join(format!("xtask-state-{}", std::process::id()));
        let size = FREE + 100;
        write(&file, size, 1).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(
            (3_200..3_360).contains(&(text.len() / size)),
            "{} bytes each",
            text.len() / size
        );
        let state: Value = serde_json::from_str(&text).unwrap();
        let resources = state["resources"].as_array().unwrap();
        assert_eq!(resources.len(), size);
        let listed = |resource: &Value| -> BTreeSet<String> {
            let list = resource["instances"][0]["dependencies"].as_array();
            let names = list.into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        let lists: BTreeMap<String, BTreeSet<String>> = resources
            .iter()
            .map(|resource| {
                let name = resource["name"].as_str().unwrap();
                (format!("terraform_data.{name}"), listed(resource))
            })
            .collect();
        let needed: BTreeSet<&String> = lists.values().flatten().collect();
        assert!(!needed.is_empty());
        for (address, list) in &lists {
            let further = list.iter().flat_map(|needed| &lists[needed]);
            assert!(further.into_iter().all(|one| list.contains(one)), "{address}");
        }
        let edited = (0..3).flat_map(|round| (0..3).map(move |which| free(size, round, which)));
        for address in edited {
            assert!(!needed.contains(&address), "{address}");
            let name = address.strip_prefix("terraform_data.").unwrap();
            assert!(
                resources.iter().any(|resource| resource["name"] == name),
                "{address}"
            );
        }
    }
}

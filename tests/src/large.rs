//! Generates large states: a state of Terraform here, and a deployment of Pulumi in `pulumi`.
//!
//! The state of Terraform has Terraform's own layout. It consists of modules whose instances depend on each other.

mod pulumi;

pub use pulumi::pulumi_deployment;

use std::fmt::Write;

/// Number of instances in a module, a multiple of the number of [`RESOURCES`].
const IN_MODULE: usize = 100;

/// Number of instances of each resource of a module ([`Shape::Counted`]), or number of resources of each type in a
/// module ([`Shape::Separate`]).
const COUNT: usize = IN_MODULE / RESOURCES.len();

/// Type and name of the resources of a module, in the order in which Terraform writes them. Each has a fifth of the
/// module's instances, and depends on all resources after it in this list.
const RESOURCES: [(&str, &str); 5] = [
    ("aws_instance", "server"),
    ("aws_route53_record", "name"),
    ("aws_security_group", "wall"),
    ("aws_subnet", "part"),
    ("aws_vpc", "net"),
];

/// How the instances of a module are distributed over resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Resources with twenty instances each, as `count` creates them in Terraform.
    Counted,
    /// Resources with one instance each.
    Separate,
}

/// Returns a state of [`Shape::Counted`] with this number of instances, a multiple of 100. An instance has about 1 KB.
#[must_use]
pub fn terraform_state(instances: usize) -> String {
    terraform_state_of(Shape::Counted, instances)
}

/// Returns a state of this shape with this number of instances, a multiple of 100. An instance has about 1 KB.
#[must_use]
pub fn terraform_state_of(shape: Shape, instances: usize) -> String {
    let mut text = String::from(concat!(
        "{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": 7,\n",
        "  \"lineage\": \"0b6ad5c4-4d6c-7d1f-9f0b-6a3a5b1f2c33\",\n  \"outputs\": {},\n  \"resources\": [\n",
    ));
    let modules = instances / IN_MODULE;
    for module in 0..modules {
        for place in 0..RESOURCES.len() {
            let is_last = module + 1 == modules && place + 1 == RESOURCES.len();
            match shape {
                Shape::Counted => resource(&mut text, module, place, None),
                Shape::Separate => separate(&mut text, module, place),
            }
            text.push_str(if is_last { "\n" } else { ",\n" });
        }
    }
    text.push_str("  ],\n  \"check_results\": null\n}\n");
    text
}

/// Writes [`COUNT`] resources with one instance each. `place` is the index of their type in [`RESOURCES`].
fn separate(text: &mut String, module: usize, place: usize) {
    for index in 0..COUNT {
        resource(text, module, place, Some(index));
        text.push_str(if index + 1 == COUNT { "" } else { ",\n" });
    }
}

/// Writes a resource: with all [`COUNT`] instances if `alone` is `None`, otherwise with one instance, whose number is
/// `alone`. `place` is the index of its type in [`RESOURCES`].
fn resource(text: &mut String, module: usize, place: usize, alone: Option<usize>) {
    let (kind, name) = RESOURCES[place];
    let name = name.to_owned() + &alone.map(|index| format!("_{index:02}")).unwrap_or_default();
    push(
        text,
        format_args!(
            concat!(
                "    {{\n      \"module\": \"module.service_{module:05}\",\n      \"mode\": \"managed\",\n",
                "      \"type\": \"{kind}\",\n      \"name\": \"{name}\",\n",
                "      \"provider\": \"provider[\\\"registry.terraform.io/hashicorp/aws\\\"]\",\n      \"instances\": [\n",
            ),
            module = module,
            kind = kind,
            name = name,
        ),
    );
    match alone {
        Some(index) => {
            instance(text, module, place, index, true);
            text.push('\n');
        }
        None => {
            for index in 0..COUNT {
                instance(text, module, place, index, false);
                text.push_str(if index + 1 == COUNT { "\n" } else { ",\n" });
            }
        }
    }
    text.push_str("      ]\n    }");
}

/// Writes an instance of the resource at index `place` in [`RESOURCES`]. An instance that `is_alone` in its resource
/// has no index key, and depends on the resources with the same number.
fn instance(text: &mut String, module: usize, place: usize, index: usize, is_alone: bool) {
    let id = format!("{:08x}", module * 1_000 + place * 100 + index);
    let key = match is_alone {
        true => String::new(),
        false => format!("          \"index_key\": {index},\n"),
    };
    push(
        text,
        format_args!(
            concat!(
                "        {{\n{key}          \"schema_version\": 1,\n          \"attributes\": {{\n",
                "            \"arn\": \"arn:aws:ec2:eu-central-1:123456789012:{name}/{id}\",\n",
                "            \"cidr_block\": \"10.{a}.{b}.0/24\",\n",
                "            \"enabled\": true,\n",
                "            \"id\": \"{name}-{id}\",\n",
                "            \"owner_id\": \"123456789012\",\n",
                "            \"size\": {index},\n",
                "            \"tags\": {{\n",
                "              \"Environment\": \"production\",\n",
                "              \"Name\": \"service-{module:05}-{name}-{index}\",\n",
                "              \"Team\": \"platform\"\n",
                "            }},\n",
                "            \"timeouts\": null\n",
                "          }},\n          \"sensitive_attributes\": [],\n",
                "          \"private\": \"eyJzY2hlbWFfdmVyc2lvbiI6IjEifQ==\"",
            ),
            key = key,
            index = index,
            name = RESOURCES[place].1,
            id = id,
            a = module % 256,
            b = index,
            module = module,
        ),
    );
    if place + 1 < RESOURCES.len() {
        text.push_str(",\n          \"dependencies\": [\n");
        let mut names: Vec<String> = RESOURCES[place + 1..]
            .iter()
            .map(|(kind, name)| match is_alone {
                true => format!("module.service_{module:05}.{kind}.{name}_{index:02}"),
                false => format!("module.service_{module:05}.{kind}.{name}"),
            })
            .collect();
        names.sort();
        for (at, name) in names.iter().enumerate() {
            let comma = if at + 1 == names.len() { "" } else { "," };
            push(text, format_args!("            \"{name}\"{comma}\n"));
        }
        text.push_str("          ]");
    }
    text.push_str("\n        }");
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a `String` can't fail.
    let _ = text.write_fmt(what).ok();
}

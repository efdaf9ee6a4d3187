//! A large state of Terraform, made up: modules of instances, each after three others, laid out as Terraform does it.

use std::fmt::Write;

/// How many instances a module has: enough for a resource of each kind that depends on the one before.
const IN_MODULE: usize = 100;

/// The resources of a module in Terraform's order, each with a fifth of its instances, and after all that follow here.
const RESOURCES: [(&str, &str); 5] = [
    ("aws_instance", "server"),
    ("aws_route53_record", "name"),
    ("aws_security_group", "wall"),
    ("aws_subnet", "part"),
    ("aws_vpc", "net"),
];

/// A state with so many instances (a multiple of 100), about 1 KB each as it is laid out.
#[must_use]
pub fn terraform_state(instances: usize) -> String {
    let mut text = String::from(concat!(
        "{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": 7,\n",
        "  \"lineage\": \"0b6ad5c4-4d6c-7d1f-9f0b-6a3a5b1f2c33\",\n  \"outputs\": {},\n  \"resources\": [\n",
    ));
    let modules = instances / IN_MODULE;
    for module in 0..modules {
        for place in 0..RESOURCES.len() {
            resource(&mut text, module, place);
            let is_last = module + 1 == modules && place + 1 == RESOURCES.len();
            text.push_str(if is_last { "\n" } else { ",\n" });
        }
    }
    text.push_str("  ],\n  \"check_results\": null\n}\n");
    text
}

fn resource(text: &mut String, module: usize, place: usize) {
    let (kind, name) = RESOURCES[place];
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
    let count = IN_MODULE / RESOURCES.len();
    for index in 0..count {
        instance(text, module, place, index);
        text.push_str(if index + 1 == count { "\n" } else { ",\n" });
    }
    text.push_str("      ]\n    }");
}

fn instance(text: &mut String, module: usize, place: usize, index: usize) {
    let id = format!("{:08x}", module * 1_000 + place * 100 + index);
    push(
        text,
        format_args!(
            concat!(
                "        {{\n          \"index_key\": {index},\n          \"schema_version\": 1,\n          \"attributes\": {{\n",
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
            .map(|(kind, name)| format!("module.service_{module:05}.{kind}.{name}"))
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
    // Writing into a text doesn't fail.
    let _ = text.write_fmt(what).ok();
}

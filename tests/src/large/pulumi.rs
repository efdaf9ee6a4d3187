//! Generates a large deployment of Pulumi in the layout of `pulumi stack export`. Two of three resources depend on the
//! resource before them.

use super::push;

const STACK: &str = "urn:pulumi:prod::shop::pulumi:pulumi:Stack::shop-prod";
const PROVIDER: &str = "urn:pulumi:prod::shop::pulumi:providers:aws::default_6_0_0";
const PROVIDER_ID: &str = "0b6ad5c4-4d6c-4d1f-8f0b-6a3a5b1f2c33";
const MOMENT: &str = "2026-01-02T03:04:05.123456789Z";

/// Returns a deployment with a stack resource, a provider and this many other resources of about 1.8 KB each.
#[must_use]
pub fn pulumi_deployment(resources: usize) -> String {
    let mut text = String::from("{\n    \"version\": 3,\n    \"deployment\": {\n");
    push(
        &mut text,
        format_args!(
            concat!(
                "        \"manifest\": {{\n            \"time\": \"{moment}\",\n            \"magic\": \"\",\n",
                "            \"version\": \"v3.100.0\"\n        }},\n        \"resources\": [\n",
                "            {{\n                \"urn\": \"{stack}\",\n                \"custom\": false,\n",
                "                \"type\": \"pulumi:pulumi:Stack\"\n            }},\n",
                "            {{\n                \"urn\": \"{provider}\",\n                \"custom\": true,\n",
                "                \"id\": \"{id}\",\n                \"type\": \"pulumi:providers:aws\",\n",
                "                \"outputs\": {{\n                    \"version\": \"6.0.0\"\n                }}\n            }}",
            ),
            moment = MOMENT,
            stack = STACK,
            provider = PROVIDER,
            id = PROVIDER_ID,
        ),
    );
    for place in 0..resources {
        text.push_str(",\n");
        resource(&mut text, place);
    }
    text.push_str("\n        ]\n    }\n}\n");
    text
}

fn resource(text: &mut String, place: usize) {
    let before = match place.checked_sub(1) {
        Some(before) if !place.is_multiple_of(3) => format!(
            "\n                        \"{}\"\n                    ",
            urn(before)
        ),
        _ => String::new(),
    };
    push(
        text,
        format_args!(
            concat!(
                "            {{\n                \"urn\": \"{urn}\",\n                \"custom\": true,\n",
                "                \"id\": \"i-{place:016x}\",\n                \"type\": \"aws:ec2/instance:Instance\",\n",
                "                \"inputs\": {{\n                    \"__defaults\": [],\n",
                "                    \"ami\": \"ami-0123456789abcdef0\",\n",
                "                    \"tags\": {{\n                        \"Name\": \"server-{place:06}\",\n",
                "                        \"Team\": \"platform\",\n                        \"__defaults\": []\n",
                "                    }}\n                }},\n",
                "                \"outputs\": {{\n                    \"ami\": \"ami-0123456789abcdef0\",\n",
                "                    \"arn\": \"arn:aws:ec2:eu-central-1:123456789012:instance/i-{place:016x}\",\n",
                "                    \"id\": \"i-{place:016x}\",\n                    \"tags\": {{\n",
                "                        \"Name\": \"server-{place:06}\",\n",
                "                        \"Team\": \"platform\"\n                    }}\n                }},\n",
                "                \"parent\": \"{stack}\",\n",
                "                \"provider\": \"{provider}::{id}\",\n",
                "                \"propertyDependencies\": {{\n                    \"ami\": [],\n",
                "                    \"tags\": [{before}]\n                }},\n",
                "                \"created\": \"{moment}\",\n                \"modified\": \"{moment}\"\n            }}",
            ),
            urn = urn(place),
            place = place,
            stack = STACK,
            provider = PROVIDER,
            id = PROVIDER_ID,
            before = before,
            moment = MOMENT,
        ),
    );
}

fn urn(place: usize) -> String {
    format!("urn:pulumi:prod::shop::aws:ec2/instance:Instance::server-{place:06}")
}

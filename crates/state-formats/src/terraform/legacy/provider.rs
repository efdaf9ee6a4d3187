//! References to providers as they were before these had sources.

use crate::terraform::address::ResourceAddress;
use crate::terraform::provider::{is_reference, split_legacy};

/// The reference of version 4. Fails with what is wrong.
///
/// `aws.west` is the provider of that name in the resource's own module, `module.m.provider.aws.west` says which
/// module's it is.
pub(super) fn upgrade(text: &str, address: &ResourceAddress) -> Result<String, &'static str> {
    if text.is_empty() {
        return Ok(implied(address));
    }
    if text.contains("${") {
        return Err(
            "the alias of this provider holds a template, which Terraform 0.11 took by mistake: \
             rename the alias and apply with Terraform 0.11",
        );
    }
    let refused = "`provider` isn't a provider reference";
    let absolute = if text.contains("provider.") {
        text.to_owned()
    } else {
        format!("{}provider.{text}", prefix(&address.module))
    };
    if !is_reference(&absolute) {
        return Err(refused);
    }
    let (module, name, alias) = split_legacy(&absolute).ok_or(refused)?;
    Ok(reference(module, name, alias))
}

/// The reference of a resource that names no provider: that of its type's first word, in its own module.
pub(super) fn implied(address: &ResourceAddress) -> String {
    let name = address.kind.split('_').next().unwrap_or_default();
    reference(&prefix(&address.module), name, None)
}

fn prefix(module: &str) -> String {
    if module.is_empty() {
        return String::new();
    }
    format!("{module}.")
}

fn reference(prefix: &str, name: &str, alias: Option<&str>) -> String {
    let source = match name {
        "terraform" => "terraform.io/builtin/terraform".to_owned(),
        name => format!("registry.terraform.io/-/{name}"),
    };
    let alias = alias.map(|alias| format!(".{alias}")).unwrap_or_default();
    format!("{prefix}provider[\"{source}\"]{alias}")
}

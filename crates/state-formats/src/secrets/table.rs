//! The table of attributes that are known to hold secrets, by the types of Terraform and Pulumi.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// Types and attributes, with comments that begin with `#`.
const LIST: &str = include_str!("attributes.txt");

/// The types and patterns of the list, in its order.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}

/// Patterns by type. The underscores of a type are left out, because Pulumi's types don't have them.
static TABLE: LazyLock<HashMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let mut table: HashMap<String, Vec<&str>> = HashMap::new();
    for (kind, pattern) in rows() {
        table.entry(kind.replace('_', "")).or_default().push(pattern);
    }
    table
});

/// The [patterns](state_core::sensitive::matching_pointers) of the secret attributes of a type. Types that aren't in the
/// table have none.
pub(super) fn patterns(kind: &str) -> Vec<String> {
    let of = |name: &str| TABLE.get(name).into_iter().flatten();
    if !kind.contains(':') {
        // Terraform's names contain no capital letters, so a type without underscores can't be meant.
        return of(&kind.replace('_', ""))
            .map(|&pattern| pattern.to_owned())
            .collect();
    }
    let names = terraform_names(kind);
    let found = names.iter().flat_map(|name| of(name));
    let unique: BTreeSet<String> = found.flat_map(|pattern| pulumi_patterns(pattern)).collect();
    unique.into_iter().collect()
}

/// The names of Terraform types that a Pulumi type may be generated from, without underscores.
///
/// `aws:iam/accessKey:AccessKey` is `aws_iam_access_key`, `azure:containerservice/kubernetesCluster:KubernetesCluster` is
/// `azurerm_kubernetes_cluster`, `random:index/randomPassword:RandomPassword` is `random_password`.
fn terraform_names(kind: &str) -> Vec<String> {
    let mut parts = kind.splitn(3, ':');
    let (Some(package), Some(module), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let module = module.split('/').next().unwrap_or_default().to_lowercase();
    let name = name.to_lowercase();
    let prefix = match package {
        "azure" => "azurerm",
        "gcp" => "google",
        other => other,
    };
    let mut names = vec![format!("{prefix}{module}{name}"), format!("{prefix}{name}"), name];
    if kind == "aws:rds/instance:Instance" {
        names.push("awsdbinstance".to_owned());
    }
    names
}

/// The pattern with Pulumi's names. A list of at most one element in Terraform is an object in Pulumi, so a pattern is
/// also tried without `*`.
fn pulumi_patterns(pattern: &str) -> [String; 2] {
    let steps: Vec<String> = pattern.split('/').map(camel_case).collect();
    let flat: Vec<&str> = steps
        .iter()
        .map(String::as_str)
        .filter(|step| *step != "*")
        .collect();
    [flat.join("/"), steps.join("/")]
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.extend(letters);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{LIST, patterns, rows};

    #[test]
    fn table_is_sorted_complete_and_well_formed() {
        let all: Vec<_> = rows().collect();
        assert!(
            all.is_sorted_by(|one, next| one < next),
            "sorted, without duplicates"
        );
        let comments = LIST.lines().filter(|line| line.starts_with('#')).count();
        assert_eq!(
            all.len() + comments,
            LIST.lines().count(),
            "every line is a row or a comment"
        );
        assert!(all.len() >= 150, "{} attributes", all.len());
        for (kind, pattern) in all {
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(kind.bytes().all(is_name), "{kind}");
            assert!(
                pattern.starts_with('/') && !pattern.ends_with('/'),
                "{kind} {pattern}"
            );
            assert!(
                !pattern.contains("//") && !pattern.contains(' '),
                "{kind} {pattern}"
            );
        }
    }

    #[test]
    fn pulumi_types_are_found_by_their_terraform_names() {
        for (kind, pattern) in [
            ("random:index/randomPassword:RandomPassword", "/result"),
            ("tls:index/privateKey:PrivateKey", "/privateKeyPem"),
            ("aws:iam/accessKey:AccessKey", "/secret"),
            ("aws:rds/instance:Instance", "/password"),
            ("aws:secretsmanager/secretVersion:SecretVersion", "/secretString"),
            ("gcp:serviceaccount/key:Key", "/privateKey"),
            ("gcp:container/cluster:Cluster", "/masterAuth/password"),
            (
                "azure:containerservice/kubernetesCluster:KubernetesCluster",
                "/kubeConfigRaw",
            ),
            ("azure:keyvault/secret:Secret", "/value"),
            ("kubernetes:core/v1:Secret", "/data"),
            ("kubernetes:core/v1:Secret", "/stringData"),
            ("heroku:app/app:App", "/sensitiveConfigVars"),
        ] {
            let found = patterns(kind);
            assert!(found.iter().any(|one| one == pattern), "{kind}: {found:?}");
        }
        for kind in ["pulumi:pulumi:Stack", "a:b", ":", "aws:s3/bucket:Bucket"] {
            assert!(patterns(kind).is_empty(), "{kind}");
        }
    }

    #[test]
    fn terraform_types_have_their_attributes() {
        assert_eq!(patterns("random_password"), ["/bcrypt_hash", "/result"]);
        for (kind, pattern) in [
            ("confluent_api_key", "/secret"),
            ("heroku_app", "/sensitive_config_vars"),
            ("minio_iam_user", "/secret"),
            ("onepassword_item", "/password"),
            ("rancher2_cluster", "/kube_config"),
            ("sops_file", "/data"),
            ("ssh_resource", "/private_key"),
            ("talos_machine_secrets", "/machine_secrets"),
        ] {
            assert!(patterns(kind).iter().any(|one| one == pattern), "{kind}");
        }
        assert!(patterns("terraform_data").is_empty());
    }
}

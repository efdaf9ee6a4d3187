//! The table of clients: versions, and how each one is built.
//!
//! A module whose `go.mod` has `replace` lines can't be built by `go install`: Go honours these lines only in the main
//! module. Each client is therefore built from a generated module, which requires the client's module and repeats the
//! necessary `replace` lines.

/// A program that tests run for real.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The path of the Go module.
    pub(super) module: &'static str,
    pub(super) version: &'static str,
    /// If the version is a commit, the closest release; otherwise empty.
    pub(super) release: &'static str,
    /// The import path of the package in the module that has `main`.
    pub(super) package: &'static str,
    /// Replacements, written `old => new version` as in `go.mod`.
    pub(super) replaces: &'static [(&'static str, &'static str)],
    /// Packages of nested modules that no module proxy serves; each is replaced by an empty Terraform state backend.
    pub(super) stubs: &'static [&'static str],
    /// Variables that the linker sets, as release builds do for the version.
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) place: Place,
}

impl Client {
    /// Returns the release number, without the `v`, by which files are named and Terraform selects a provider.
    pub(super) fn number(&self) -> &'static str {
        match self.release {
            "" => self.version.trim_start_matches('v'),
            release => release,
        }
    }
}

/// Where the binary is installed.
#[derive(Debug)]
pub(super) enum Place {
    /// In the folder of programs, under the client's name.
    Program,
    /// In the mirror from which `terraform init` and `tofu init` install a provider.
    Provider,
}

pub(super) static CLIENTS: [Client; 10] = [
    Client {
        name: "tofu",
        about: "OpenTofu",
        module: "github.com/opentofu/opentofu",
        version: "v1.12.6",
        release: "",
        package: "github.com/opentofu/opentofu/cmd/tofu",
        replaces: &[(
            "github.com/hashicorp/hcl/v2 v2.20.1",
            "github.com/opentofu/hcl/v2 v2.20.2-0.20251021132045-587d123c2828",
        )],
        stubs: &[],
        variables: &[("github.com/opentofu/opentofu/version.dev", "no")],
        place: Place::Program,
    },
    Client {
        name: "terraform",
        about: "Terraform, the newest version that the module proxy serves",
        module: "github.com/hashicorp/terraform",
        version: "v1.13.3",
        release: "",
        package: "github.com/hashicorp/terraform",
        replaces: &[],
        stubs: TERRAFORM_BACKENDS,
        variables: &[("github.com/hashicorp/terraform/version.dev", "no")],
        place: Place::Program,
    },
    Client {
        name: "terraform-1.11",
        about: "Terraform 1.11",
        module: "github.com/hashicorp/terraform",
        version: "v1.11.4",
        release: "",
        package: "github.com/hashicorp/terraform",
        replaces: &[],
        stubs: TERRAFORM_BACKENDS,
        variables: &[("github.com/hashicorp/terraform/version.dev", "no")],
        place: Place::Program,
    },
    Client {
        name: "pulumi",
        about: "the Pulumi CLI",
        module: "github.com/pulumi/pulumi/pkg/v3",
        version: "v3.200.0",
        release: "",
        package: "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        replaces: &[
            ("github.com/sergi/go-diff", "github.com/sergi/go-diff v1.1.0"),
            (
                "github.com/atotto/clipboard",
                "github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e",
            ),
        ],
        stubs: &[],
        variables: &[(
            "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
            "v3.200.0",
        )],
        place: Place::Program,
    },
    Client {
        name: "pulumi-language-yaml",
        about: "Pulumi's runtime for programs in YAML",
        module: "github.com/pulumi/pulumi-yaml",
        version: "v1.19.1",
        release: "",
        package: "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
        replaces: &[],
        stubs: &[],
        variables: &[("github.com/pulumi/pulumi-yaml/pkg/version.Version", "v1.19.1")],
        place: Place::Program,
    },
    Client {
        name: "time",
        about: "Terraform's provider hashicorp/time",
        module: "github.com/hashicorp/terraform-provider-time",
        version: "v0.14.2",
        release: "",
        package: "github.com/hashicorp/terraform-provider-time",
        replaces: &[],
        stubs: &[],
        variables: &[],
        place: Place::Provider,
    },
    Client {
        name: "local",
        about: "Terraform's provider hashicorp/local",
        module: "github.com/terraform-providers/terraform-provider-local",
        version: "v1.4.0",
        release: "",
        package: "github.com/terraform-providers/terraform-provider-local",
        replaces: &[],
        stubs: &[],
        variables: &[],
        place: Place::Provider,
    },
    Client {
        name: "random",
        about: "Terraform's provider hashicorp/random, a commit of 2019-09-25 with all of release 2.2.1",
        module: "github.com/terraform-providers/terraform-provider-random",
        version: "v1.3.2-0.20190925210718-83518d96ae4f",
        release: "2.2.1",
        package: "github.com/terraform-providers/terraform-provider-random",
        replaces: &[],
        stubs: &[],
        variables: &[],
        place: Place::Provider,
    },
    Client {
        name: "null",
        about: "Terraform's provider hashicorp/null, a commit of 2019-12-04 after release 2.1.2",
        module: "github.com/terraform-providers/terraform-provider-null",
        version: "v1.0.1-0.20191204185112-e5c592237f62",
        release: "2.1.2",
        package: "github.com/terraform-providers/terraform-provider-null",
        replaces: &[],
        stubs: &[],
        variables: &[],
        place: Place::Provider,
    },
    Client {
        name: "tls",
        about: "Terraform's provider hashicorp/tls, a commit of 2023-01-17 after release 4.0.4",
        module: "github.com/hashicorp/terraform-provider-tls",
        version: "v1.2.1-0.20230117062332-afdd54107aba",
        release: "4.0.4",
        package: "github.com/hashicorp/terraform-provider-tls",
        replaces: &[],
        stubs: &[],
        variables: &[],
        place: Place::Provider,
    },
];

/// Terraform keeps these backends in nested modules that only its own repository resolves. The tests use none of them.
const TERRAFORM_BACKENDS: &[&str] = &[
    "azure",
    "consul",
    "cos",
    "gcs",
    "kubernetes",
    "oci",
    "oss",
    "pg",
    "s3",
];

/// Clients that can't be built here, each with the reason.
pub(super) const UNAVAILABLE: [(&str, &str); 2] = [
    (
        "pulumi-resource-random",
        "the module proxy refuses `pulumi-random/provider/v4`: no releases, and not the commit of release 4.16.7",
    ),
    (
        "pulumi-resource-command",
        "the module proxy refuses `pulumi-command/provider`: no releases, and not the commit of release 1.0.1",
    ),
];

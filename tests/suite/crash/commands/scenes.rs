//! The stores on which the commands run, each made by a shell script.

/// A secret that a sealed stack never stores in plaintext.
pub(super) const CANARY: &str = "canary-of-the-killed-commands";

/// A store before a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scene {
    /// No store, and no identity.
    Empty,
    /// The stack `default` has an imported state and four revisions.
    Imported,
    /// The stack `default` has the resources of `state.yaml`.
    Deployed,
    /// The process that created a resource was killed. The file `operation` contains the id of the pending operation.
    Pending,
    /// A provider result could not be recorded, because another process broke the lock. The file `spooled` contains the
    /// path of the file with the result.
    Spooled,
}

impl Scene {
    /// The shell script that makes the scene in a folder with the [`files`].
    pub(super) const fn script(self) -> &'static str {
        match self {
            Self::Empty => "",
            Self::Imported => {
                "statectl import one.json --yes
                 statectl taint terraform_data.network --yes
                 statectl untaint terraform_data.network --yes
                 statectl protect terraform_data.database --yes"
            }
            Self::Deployed => "statectl up --yes --config token=$CANARY",
            Self::Pending => {
                "cp pending.yaml state.yaml
                 statectl up --yes || true
                 statectl pending list --json | tr ',' '\\n' | sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -n 1 >operation
                 test -s operation"
            }
            Self::Spooled => {
                "cp spooled.yaml state.yaml
                 statectl up --yes || true
                 ls \"$XDG_STATE_HOME\"/statectl/spool/* >spooled"
            }
        }
    }
}

/// The files in the working folder of each scene, without the program `statectl`.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let program = |create: &str| {
        format!(
            "resources:\n  thing:\n    kind: command\n    inputs:\n      create: [sh, -c, '{create}']\n      read: [sh, -c, \
             'test -f made || exit 66']\n      delete: [rm, -f, made]\n"
        )
    };
    vec![
        ("one.json", imported(3, "10.0.0.0/16")),
        ("two.json", imported(40, "10.1.0.0/16")),
        ("state.yaml", PROGRAM.to_owned()),
        (
            "pending.yaml",
            program("test -f tried || { touch tried; kill -9 $PPID; exit 1; }; touch made"),
        ),
        (
            "spooled.yaml",
            program(
                "test -f tried || { touch tried; statectl lock break --yes >broken 2>&1; }; touch made; echo made",
            ),
        ),
        (
            "edits.json",
            r#"{"operations":[{"op":"protect","addresses":["terraform_data.network"]}]}"#.to_owned(),
        ),
    ]
}

/// A program with a secret, whose resources the state describes in full.
const PROGRAM: &str = r#"
config:
  token: { type: string, secret: true }
  text: { type: string, default: one }
resources:
  folder: { kind: directory, inputs: { path: out } }
  page:
    kind: file
    options: { parent: folder }
    inputs: { path: "${folder.path}/page", content: "${config.text}" }
  secret:
    kind: file
    options: { parent: folder }
    inputs: { path: "${folder.path}/secret", content: "${config.token}" }
  note:
    kind: command
    inputs: { create: [echo, note], update: [echo, note], read: [echo, note], delete: ["true"] }
outputs:
  page: "${page.path}"
  token: "${config.token}"
"#;

/// Returns a Terraform state with two resources, one of which depends on the other and contains the secret.
fn imported(serial: u64, network: &str) -> String {
    // Looks like a secret, and isn't sealed by an import.
    let token = format!("ghp_{}", "aB3".repeat(12));
    let resource = |name: &str, value: &str, more: &str| {
        let typed = format!(r#"{{"value":"{value}","type":"string"}}"#);
        format!(
            r#"{{"mode":"managed","type":"terraform_data","name":"{name}",
                "provider":"provider[\"terraform.io/builtin/terraform\"]",
                "instances":[{{"schema_version":0,"attributes":{{"id":"{name}-1","input":{typed},"output":{typed},
                "triggers_replace":"{token}"}},{more}}}]}}"#
        )
    };
    let sensitive = r#""sensitive_attributes":[[{"type":"get_attr","value":"input"}],[{"type":"get_attr","value":"output"}]],
        "dependencies":["terraform_data.network"]"#;
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"309bbbba-b36a-d32b-70d2-033492089d50",
            "outputs":{{"token":{{"value":"{CANARY}","type":"string","sensitive":true}},
            "network":{{"value":"{network}","type":"string"}}}},
            "resources":[{},{}],"check_results":null}}"#,
        resource("network", network, r#""sensitive_attributes":[]"#),
        resource("database", CANARY, sensitive),
    )
}

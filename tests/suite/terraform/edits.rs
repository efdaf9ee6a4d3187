//! Edits of states that Terraform made: Terraform loads each export, and plans exactly what the edits mean.
//!
//! The configuration stays as it was, so each edit has a known effect on the plan: an object at an address that the
//! configuration doesn't declare is deleted, a declared address without an object is created, and a tainted object is
//! replaced. The tests compute the plan from their own list of edits.

mod model;

use super::cli::{TerraformCli, copy};
use crate::process;
use model::{Model, Step};
use serde_json::Value;
use state_core::testkit::run::scaled;
use state_tests::dice::{Dice, replay, seed};
use std::path::Path;
use tempfile::TempDir;

const UNTESTED: &str = "edited states planned by the real client";

/// Modules with `count` and `for_each`, a nested module, and resources of each shape. Dependencies carry no values, so that
/// the replacement of one resource doesn't change another one.
const ROOT: &str = r#"
resource "terraform_data" "single" {}
resource "terraform_data" "counted" { count = 3 }
resource "terraform_data" "each" {
  for_each   = toset(["a", "b.c", "d[0]"])
  depends_on = [terraform_data.counted]
}
module "one" { source = "./part" }
module "many" {
  source   = "./part"
  for_each = toset(["x", "y"])
}
module "listed" {
  source     = "./part"
  count      = 2
  depends_on = [module.one]
}
"#;
const PART: &str = r#"
resource "terraform_data" "web" { count = 2 }
resource "terraform_data" "db" { depends_on = [terraform_data.web] }
module "inner" { source = "./inner" }
"#;
const INNER: &str = r#"
resource "terraform_data" "leaf" { input = "leaf" }
"#;

/// A folder with a configuration, a state that Terraform made from it, and a stack that imported the state.
struct Workspace {
    dir: TempDir,
}

impl Workspace {
    /// Applies a configuration with the client.
    fn applied(terraform: &TerraformCli, root: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a new folder");
            std::fs::write(file, text).expect("a file is written");
        };
        write("main.tf", root);
        write("part/main.tf", PART);
        write("part/inner/main.tf", INNER);
        terraform.init(dir.path());
        terraform.apply_all(dir.path());
        Self { dir }
    }

    /// A copy of the folder whose state is imported into a new stack.
    fn imported(&self) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        copy(self.dir.path(), dir.path());
        let copied = Self { dir };
        copied.statectl(&["import", "terraform.tfstate"], 0);
        copied
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn state(&self) -> Value {
        let text = std::fs::read(self.path().join("terraform.tfstate")).expect("a state");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Runs `statectl`, which must exit with this code, and returns its output and messages.
    #[track_caller]
    fn statectl(&self, arguments: &[&str], code: i32) -> String {
        let mut command = process::statectl(arguments);
        command.current_dir(self.path());
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"] {
            command.env(name, self.path().join("home"));
        }
        let output = command.output().expect("the worker runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    }

    /// Exports the stack over the state of the folder.
    fn export(&self) {
        self.statectl(
            &["export", "-o", "terraform.tfstate", "--force", "--show-secrets"],
            0,
        );
    }
}

/// One change of a plan: the address, the actions, and the id of the object before the change.
type Planned = (String, String, Option<String>);

/// The changes of a plan, sorted.
fn changes(plan: &Value) -> Vec<Planned> {
    let mut changes: Vec<Planned> = plan["resource_changes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|change| {
            let mut actions: Vec<&str> = change["change"]["actions"]
                .as_array()
                .expect("actions")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            actions.sort_unstable();
            let id = change["change"]["before"]["id"].as_str().map(str::to_owned);
            let address = change["address"].as_str().expect("an address");
            let deposed = change["deposed"].as_str().map(|key| format!(" ({key})"));
            (
                format!("{address}{}", deposed.unwrap_or_default()),
                actions.join(","),
                id,
            )
        })
        .filter(|(_, actions, _)| actions != "no-op")
        .collect();
    changes.sort();
    changes
}

#[test]
fn plan_after_generated_edits_is_exactly_the_intended_one() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let workspace = Workspace::applied(&terraform, ROOT);
        let declared = Model::of(&workspace.state());
        assert!(declared.len() >= 20, "{declared:?}");
        for round in 0..u64::from(scaled(40)) {
            let seed = seed(7_000 + round);
            let copied = workspace.imported();
            let mut dice = Dice::new(seed);
            let mut model = declared.clone();
            let mut steps = Vec::new();
            for number in 0..2 + dice.index(5) {
                let step = Step::draw(&mut dice, &model, number);
                step.perform(&mut model, |arguments, code| copied.statectl(arguments, code));
                steps.push(step);
            }
            copied.export();
            let planned = changes(&terraform.planned(copied.path()));
            assert_eq!(
                planned,
                model.plan(&declared),
                "{terraform}: {steps:?}; {}",
                replay(seed)
            );
        }
    }
}

#[test]
fn renamed_module_plans_no_changes_with_its_configuration() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let copied = Workspace::applied(&terraform, ROOT).imported();
        let preview = copied.statectl(&["mv", "module.many", "module.services"], 4);
        assert!(
            preview.contains("Terraform will DESTROY")
                && preview.contains("unless the configuration declares it"),
            "{preview}"
        );
        copied.statectl(&["mv", "module.many", "module.services", "--yes"], 0);
        copied.statectl(
            &["mv", "module.one.module.inner", "module.one.module.core", "--yes"],
            0,
        );
        copied.statectl(
            &["mv", "terraform_data.counted", "terraform_data.numbered", "--yes"],
            0,
        );
        let listed = copied.statectl(&["history", "--json"], 0);
        assert!(listed.contains("mv module.many module.services"), "{listed}");
        copied.export();
        let root = ROOT
            .replace("module \"many\"", "module \"services\"")
            .replace("counted", "numbered")
            .replace(
                "module \"one\" { source = \"./part\" }",
                "module \"one\" { source = \"./renamed\" }",
            );
        std::fs::write(copied.path().join("main.tf"), root).expect("a file is written");
        std::fs::create_dir_all(copied.path().join("renamed/inner")).expect("a new folder");
        let part = PART.replace("module \"inner\"", "module \"core\"");
        std::fs::write(copied.path().join("renamed/main.tf"), part).expect("a file is written");
        std::fs::write(copied.path().join("renamed/inner/main.tf"), INNER).expect("a file is written");
        terraform.init(copied.path());
        assert_eq!(changes(&terraform.planned(copied.path())), [], "{terraform}");
    }
}

/// A state in which a resource block occurs twice; `edit` changes the copy.
fn duplicated(state: &Value, edit: impl Fn(&mut Value)) -> String {
    let mut state = state.clone();
    let resources = state["resources"].as_array_mut().expect("resources");
    let is_single = |resource: &&Value| resource["name"] == "single";
    let mut copy = resources.iter().find(is_single).expect("a resource").clone();
    edit(&mut copy["instances"][0]);
    resources.push(copy);
    serde_json::to_string_pretty(&state).expect("JSON")
}

#[test]
fn repair_of_a_duplicate_destroys_nothing() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let workspace = Workspace::applied(&terraform, ROOT);
        let state = workspace.state();
        for edit in [
            (|_| {}) as fn(&mut Value),
            |instance| instance["attributes"]["input"] = "older".into(),
            |instance| instance["status"] = "tainted".into(),
        ] {
            let copied = TempDir::new().expect("a folder");
            copy(workspace.path(), copied.path());
            let copied = Workspace { dir: copied };
            std::fs::write(copied.path().join("broken.tfstate"), duplicated(&state, edit)).expect("a file");
            copied.statectl(&["import", "broken.tfstate"], 14);
            copied.statectl(&["import", "broken.tfstate", "--repair", "--yes"], 0);
            copied.export();
            assert_eq!(changes(&terraform.planned(copied.path())), [], "{terraform}");
            let history = copied.statectl(&["history"], 0);
            assert!(history.contains("repair"), "{history}");
        }
    }
}

#[test]
fn different_objects_at_one_address_need_a_choice() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let copied = Workspace::applied(&terraform, ROOT);
        let state = copied.state();
        let broken = duplicated(&state, |instance| {
            instance["attributes"]["id"] = "other-id".into();
        });
        std::fs::write(copied.path().join("broken.tfstate"), broken).expect("a file is written");
        let refused = copied.statectl(&["import", "broken.tfstate", "--repair", "--yes"], 14);
        let model = Model::of(&state);
        let id = model.id("terraform_data.single").expect("an id");
        for part in [
            id,
            "other-id",
            &format!("`statectl import broken.tfstate --repair --keep terraform_data.single={id}`"),
            "`statectl import broken.tfstate --repair --keep terraform_data.single=other-id`",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert!(!copied.path().join(".state").exists(), "nothing may be written");
        let keep = format!("terraform_data.single={id}");
        let preview = copied.statectl(&["import", "broken.tfstate", "--repair", "--keep", &keep], 4);
        assert!(preview.contains("Terraform will FORGET other-id"), "{preview}");
        copied.statectl(
            &["import", "broken.tfstate", "--repair", "--yes", "--keep", &keep],
            0,
        );
        copied.export();
        assert_eq!(changes(&terraform.planned(copied.path())), [], "{terraform}");
    }
}

#[test]
fn moved_resources_export_as_a_new_terraform_state() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let copied = Workspace::applied(&terraform, ROOT).imported();
        let old = copied.state();
        copied.statectl(&["stack", "new", "part"], 0);
        let source = ["--stack", "default", "--yes"];
        copied.statectl(
            &[
                &["mv", "terraform_data.single", "--to-stack", "part"],
                &source[..],
            ]
            .concat(),
            0,
        );
        let stack = ["--stack", "part"];
        copied.statectl(
            &[
                &["export", "-o", "terraform.tfstate", "--force", "--show-secrets"],
                &stack[..],
            ]
            .concat(),
            0,
        );
        let new = copied.state();
        assert_eq!(new["version"], 4);
        assert_eq!(new["serial"], 1);
        assert_ne!(new["lineage"], old["lineage"]);
        std::fs::write(
            copied.path().join("main.tf"),
            "resource \"terraform_data\" \"single\" {}\n",
        )
        .expect("a file is written");
        assert_eq!(changes(&terraform.planned(copied.path())), [], "{terraform}");
        // A state that Terraform changed later comes back into the same stack.
        terraform.taint(copied.path(), "terraform_data.single");
        copied.statectl(&[&["import", "terraform.tfstate"], &stack[..]].concat(), 0);
    }
}

#[test]
fn masked_export_is_refused_by_the_client() {
    for terraform in TerraformCli::all_for(UNTESTED) {
        let copied = Workspace::applied(&terraform, ROOT).imported();
        copied.statectl(&["export", "--masked", "-o", "terraform.tfstate", "--force"], 0);
        let refused = terraform.refused_plan(copied.path());
        assert!(refused.contains("version"), "{terraform}: {refused}");
    }
}

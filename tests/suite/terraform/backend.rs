//! The real client with a stack as its backend, under `statectl run`.

use super::folder::WorkFolder;

/// The configuration without a backend.
const LOCAL: &str = "resource \"terraform_data\" \"db\" { input = \"db\" }\n";

#[test]
fn each_command_of_the_client_works_on_a_stack() {
    for folder in WorkFolder::all("Terraform's commands with a stack as the backend") {
        folder.init();
        folder.apply("one").exits(0);
        folder.plan("one").exits(0);
        folder.plan("two").exits(2);
        let id = folder.run(&["output", "-raw", "release"]).exits(0).out;
        assert!(id.starts_with("one on "), "{id}");
        let listed = folder.run(&["state", "list"]).exits(0).out;
        assert_eq!(listed, "terraform_data.db\nterraform_data.web\n");
        folder
            .run(&["state", "mv", "terraform_data.db", "terraform_data.moved"])
            .exits(0);
        folder
            .run(&["state", "mv", "terraform_data.moved", "terraform_data.db"])
            .exits(0);
        folder.plan("one").exits(0);
        folder.run(&["taint", "terraform_data.web"]).exits(0);
        folder.plan("one").exits(2);
        folder.run(&["untaint", "terraform_data.web"]).exits(0);
        folder.plan("one").exits(0);
        folder.run(&["apply", "-refresh-only", "-auto-approve"]).exits(0);
        folder.run(&["state", "rm", "terraform_data.web"]).exits(0);
        folder.plan("one").exits(2);
        folder.apply("one").exits(0);
        folder.run(&["destroy", "-auto-approve"]).exits(0);
        assert_eq!(folder.run(&["state", "list"]).exits(0).out, "");
        folder.apply("two").exits(0);
        folder.statectl(&["verify", "--deep"]).exits(0);
    }
}

#[test]
fn pulled_state_is_what_the_client_wrote_last() {
    for folder in WorkFolder::all("byte-exact states of Terraform's backend") {
        folder.init();
        for release in ["one", "two", "three"] {
            folder.apply(release).exits(0);
            let pulled = folder.run(&["state", "pull"]).exits(0).out;
            // Terraform prints a newline after the state, which ends with one.
            assert_eq!(pulled, folder.exported() + "\n", "{}", folder.name());
        }
        folder.write("newer.tfstate", &folder.exported());
        folder.run(&["state", "push", "newer.tfstate"]).exits(0);
        let raised = folder.exported().replacen("\"serial\": 3", "\"serial\": 9", 1);
        folder.write("newer.tfstate", &raised);
        folder.run(&["state", "push", "newer.tfstate"]).exits(0);
        // Terraform writes a pushed state with the next serial.
        assert!(
            folder.exported().contains("\"serial\": 10"),
            "{}",
            folder.exported()
        );
        folder.plan("three").exits(0);
        let older = folder.exported().replacen("\"serial\": 10", "\"serial\": 2", 1);
        folder.write("older.tfstate", &older);
        folder
            .run(&["state", "push", "-force", "older.tfstate"])
            .exits(1)
            .reports("newer changes would be lost");
    }
}

#[test]
fn secrets_are_sealed_and_history_names_operations() {
    for folder in WorkFolder::all("sealed states of Terraform's backend") {
        folder.init();
        folder.apply("one").exits(0);
        folder.apply("two").exits(0);
        for secret in ["canary-one", "canary-two"] {
            assert!(!folder.store_contains(secret), "{}: {secret}", folder.name());
        }
        let shown = folder.run(&["output", "-raw", "password"]).exits(0).out;
        assert_eq!(shown, "canary-two");
        let history = folder.statectl(&["history", "--json"]).exits(0).out;
        assert_eq!(history.lines().count(), 2, "{history}");
        for text in [
            "terraform apply",
            "OperationTypeApply",
            "terraform-who",
            "lock-id",
        ] {
            assert!(history.contains(text), "{text}: {history}");
        }
        let shown = folder.statectl(&["history"]).exits(0).out;
        assert!(shown.contains("terraform apply"), "{shown}");
    }
}

#[test]
fn plan_works_after_a_rollback_between_applies() {
    for folder in WorkFolder::all("a rollback between two runs of Terraform") {
        folder.init();
        folder.apply("one").exits(0);
        folder.apply("two").exits(0);
        folder.statectl(&["rollback", "1", "--yes"]).exits(0);
        folder.plan("one").exits(0);
        folder.plan("two").exits(2);
        folder.apply("three").exits(0);
        folder.statectl(&["undo", "--yes"]).exits(0);
        folder.apply("three").exits(0);
        folder.plan("three").exits(0);
    }
}

#[test]
fn local_state_is_migrated_by_init() {
    for folder in WorkFolder::all("a migration of a local state to a stack") {
        let configured = std::fs::read_to_string(folder.work().join("main.tf")).expect("a file");
        folder.write("main.tf", LOCAL);
        for arguments in [&["init"][..], &["apply", "-auto-approve"]] {
            super::folder::finished(&mut folder.client_command(arguments)).exits(0);
        }
        let id = |state: &str| {
            let state: serde_json::Value = serde_json::from_str(state).expect("JSON");
            state["resources"][0]["instances"][0]["attributes"]["id"].clone()
        };
        let local = std::fs::read_to_string(folder.work().join("terraform.tfstate")).expect("a state");
        folder.write("main.tf", &configured);
        folder
            .run(&["init", "-migrate-state", "-force-copy", "-no-color"])
            .exits(0);
        assert_eq!(id(&folder.exported()), id(&local), "{}", folder.name());
        folder.write(
            "main.tf",
            &format!("terraform {{\n  backend \"http\" {{}}\n}}\n{LOCAL}"),
        );
        folder.run(&["plan", "-detailed-exitcode"]).exits(0);
    }
}

#[test]
fn saved_plan_is_applied_by_another_run() {
    for folder in WorkFolder::all("a saved plan with a stack as the backend") {
        folder.init();
        folder.run(&["plan", "-out=saved"]).exits(0);
        folder.run(&["apply", "saved"]).exits(0);
        folder.plan("one").exits(0);
        folder
            .run(&["apply", "saved"])
            .exits(1)
            .reports("Saved plan is stale");
    }
}

//! `up`, `preview`, `refresh` and `destroy` with real files: each command performs exactly the steps of its preview.

use crate::sandbox::{CommandOutput, Sandbox, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns the path of the example program in this repository.
pub(crate) fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/site.yaml");
    path.to_str().unwrap().to_owned()
}

/// A program with two files; the second contains the size of the first.
pub(crate) const PAGES: &str = r#"
resources:
  folder:
    kind: directory
    inputs: { path: out }
  first:
    kind: file
    options: { parent: folder }
    inputs: { path: "${folder.path}/first", content: one }
  second:
    kind: file
    options: { parent: folder }
    inputs: { path: "${folder.path}/second", content: "after ${first.size} bytes" }
outputs:
  path: ${first.path}
"#;

/// Returns all files below a folder, with their contents and modification times.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let Ok(children) = std::fs::read_dir(folder) else {
        return found;
    };
    for child in children {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (std::fs::read(&path).unwrap(), changed));
        }
    }
    found
}

/// Returns the steps of a run, sorted because independent steps may end in any order.
fn steps(done: &Value) -> Vec<String> {
    let all = done["steps"].as_array().unwrap().iter();
    let word = |step: &Value, name: &str| step[name].as_str().unwrap().to_owned();
    let mut text: Vec<String> = all
        .map(|step| format!("{} {}", word(step, "op"), word(step, "address")))
        .collect();
    text.sort();
    text
}

/// Returns the steps that a run must have performed according to the report of its preview. If the preview showed an
/// update with unknown inputs and the run `done` found no change, the update is replaced by `same`, or removed.
fn expected_steps(preview: &Value, done: &Value) -> Vec<String> {
    let performed = steps(done);
    let is_open = |step: &Value| step["op"] == "update" && step.get("unknown").is_some();
    let all = preview["steps"].as_array().unwrap().iter();
    let open: Vec<String> = all
        .filter(|step| is_open(step))
        .map(|step| step["address"].as_str().unwrap().to_owned())
        .collect();
    let mut text = steps(preview);
    for address in open {
        let (update, same) = (format!("update {address}"), format!("same {address}"));
        if performed.contains(&update) {
            continue;
        }
        text.retain(|step| *step != update);
        text.extend(performed.contains(&same).then_some(same));
    }
    text.sort();
    text
}

/// Runs a command with `--preview` and then without. Asserts that both report the same steps and that the preview
/// writes no revision. Returns the report of the second run.
#[track_caller]
fn run_as_previewed(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let before = sandbox.history().len();
    let kind = arguments[0];
    let preview = [arguments, &["--preview", "--json"]].concat();
    let preview = sandbox.run(&preview).exits(0).data(kind);
    assert_eq!(
        sandbox.history().len(),
        before,
        "a preview must write no revision"
    );
    let done = [arguments, &["--yes", "--json"]].concat();
    let done = sandbox.run(&done).exits(0).data(kind);
    assert_eq!(expected_steps(&preview, &done), steps(&done));
    assert_eq!(preview["preview"], true);
    assert_eq!(done["preview"], false);
    done
}

#[track_caller]
fn up(sandbox: &Sandbox, more: &[&str]) -> CommandOutput {
    sandbox.run(&[&["up", "state.yaml", "--yes"][..], more].concat())
}

#[test]
fn example_is_created_and_a_second_run_changes_nothing() {
    let sandbox = Sandbox::new();
    let example = example();
    let up = ["up", &*example, "--config", "dir=site", "--yes"];
    let made = sandbox.run(&up).exits(0);
    assert!(
        made.stdout.contains("created stack site") && made.stdout.contains("8 created"),
        "{made:?}"
    );
    let site = sandbox.path().join("site");
    let (before, history) = (files(&site), sandbox.history().len());
    assert_eq!(before.len(), 5);
    let again = sandbox
        .run(&[&up[..], &["--detailed-exitcode"]].concat())
        .exits(0);
    assert_eq!(again.stdout, "nothing to do\n");
    assert_eq!(files(&site), before, "a second run must change no file");
    assert_eq!(
        sandbox.history().len(),
        history,
        "a run without a change must write no revision"
    );
    let password = std::fs::read_to_string(site.join("members/.users")).unwrap();
    let password = password.trim().strip_prefix("member:").unwrap();
    assert_eq!(password.len(), 24);
    assert!(
        !made.stdout.contains(password) && !made.stderr.contains(password),
        "{made:?}"
    );
    let shown = sandbox.run(&["outputs", "password", "--show-secrets"]).exits(0);
    assert_eq!(shown.stdout.trim().trim_matches('"'), password);
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert!(!site.exists(), "{:?}", files(&site));
    assert_eq!(
        sandbox.run(&["list", "--json"]).data("list")["entries"],
        serde_json::json!([])
    );
    let outputs = sandbox.run(&["outputs", "--json"]).data("outputs");
    assert_eq!(outputs["outputs"], serde_json::json!({}));
}

#[test]
fn sealed_example_leaves_no_password_in_the_store() {
    let sandbox = Sandbox::new();
    let example = example();
    run(&mut sandbox.sealing(&["up", &example, "--config", "dir=site", "--yes"])).exits(0);
    let users = std::fs::read_to_string(sandbox.path().join("site/members/.users")).unwrap();
    let password = users.trim().strip_prefix("member:").unwrap().as_bytes();
    for (path, (bytes, _)) in files(&sandbox.path().join(".state")) {
        let is_stored = bytes.windows(password.len()).any(|part| part == password);
        assert!(!is_stored, "{}", path.display());
    }
    let preview =
        run(&mut sandbox.sealing(&["preview", &example, "--config", "dir=site", "--detailed-exitcode"]));
    assert_eq!(
        preview.exits(0).stdout,
        "nothing to do\n",
        "a second run on a sealed stack must find no differences"
    );
}

#[test]
fn each_command_performs_the_steps_of_its_preview() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    sandbox.run(&["init"]).exits(0);
    sandbox.run(&["stack", "new", "default"]).exits(0);
    let out = sandbox.path().join("out");
    let made = run_as_previewed(&sandbox, &["up"]);
    assert_eq!(steps(&made), ["create first", "create folder", "create second"]);
    sandbox.write("state.yaml", PAGES.replace("content: one", "content: longer"));
    let edited = run_as_previewed(&sandbox, &["up"]);
    assert_eq!(steps(&edited), ["update first", "update second"]);
    std::fs::remove_file(out.join("first")).unwrap();
    let blind = sandbox.run(&["preview", "--json"]).exits(0).data("preview");
    assert_eq!(
        blind["changed"], false,
        "a preview without --refresh must not detect drift"
    );
    let seen = sandbox
        .run(&["refresh", "--preview", "--detailed-exitcode"])
        .exits(3);
    assert!(
        seen.stdout.contains("first") && seen.stdout.contains("no longer exists"),
        "{seen:?}"
    );
    let mended = run_as_previewed(&sandbox, &["up", "--refresh"]);
    assert!(steps(&mended).contains(&"create first".to_owned()), "{mended}");
    assert_eq!(std::fs::read_to_string(out.join("first")).unwrap(), "longer");
    std::fs::write(out.join("second"), "scribbled").unwrap();
    let drifted = run_as_previewed(&sandbox, &["refresh"]);
    assert_eq!(steps(&drifted), ["refresh second"]);
    run_as_previewed(&sandbox, &["up"]);
    assert!(
        std::fs::read_to_string(out.join("second"))
            .unwrap()
            .starts_with("after ")
    );
    let gone = run_as_previewed(&sandbox, &["destroy"]);
    assert_eq!(steps(&gone), ["delete first", "delete folder", "delete second"]);
    assert!(!out.exists());
}

#[test]
fn preview_prints_a_tree_with_signs_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    let first = sandbox.run(&["preview", "--detailed-exitcode"]).exits(3);
    assert!(
        !sandbox.path().join(".state").exists(),
        "a preview must create nothing"
    );
    let lines: Vec<&str> = first.stdout.lines().collect();
    assert_eq!(lines[0], "+  folder (directory)");
    assert!(lines.contains(&"  +  first (file)"), "{lines:?}");
    assert!(first.stdout.contains("+ content: \"one\""), "{first:?}");
    assert!(first.stdout.contains("content: (known after apply)"), "{first:?}");
    assert!(first.stdout.contains("~ path: (known after apply)"), "{first:?}");
    assert!(first.stdout.ends_with("3 to create\n"), "{first:?}");
    up(&sandbox, &[]).exits(0);
    sandbox.write("state.yaml", PAGES.replace("content: one", "content: longer"));
    let second = sandbox.run(&["preview"]).exits(0);
    assert!(
        second.stdout.contains("   folder"),
        "the tree must contain the unchanged parent: {second:?}"
    );
    assert!(
        second.stdout.contains("~ content: \"one\" → \"longer\""),
        "{second:?}"
    );
    assert!(second.stdout.ends_with("2 to update\n"), "{second:?}");
}

#[test]
fn nothing_is_changed_without_confirmation() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    let refused = sandbox.run(&["up"]).exits(4);
    assert!(
        refused.stderr.contains("3 to create") && refused.stderr.contains("--yes"),
        "{refused:?}"
    );
    assert!(!sandbox.path().join("out").exists());
    up(&sandbox, &[]).exits(0);
    for command in [&["destroy"][..], &["refresh"]] {
        std::fs::write(sandbox.path().join("out/first"), "scribbled").unwrap();
        sandbox.run(command).exits(4);
    }
    assert_eq!(sandbox.history().len(), 1);
}

#[test]
fn only_targets_by_name_or_pattern_are_changed() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    up(&sandbox, &["--target", "f*"]).exits(0);
    let out = sandbox.path().join("out");
    assert!(out.join("first").exists() && !out.join("second").exists());
    let unknown = up(&sandbox, &["--target", "secnd"]).exits(10);
    assert!(unknown.stderr.contains("did you mean `second`?"), "{unknown:?}");
    up(&sandbox, &["--exclude", "second"]).exits(0);
    assert!(!out.join("second").exists());
    up(&sandbox, &[]).exits(0);
    let replaced = up(&sandbox, &["--replace", "second", "--json"])
        .exits(0)
        .data("up");
    assert_eq!(replaced["counts"]["create-replacement"], 1, "{replaced}");
    let gone = sandbox
        .run(&["destroy", "--target", "first", "--target-dependents", "--yes"])
        .exits(0);
    assert!(gone.stdout.contains("2 deleted"), "{gone:?}");
}

#[test]
fn change_of_options_only_is_recorded_in_the_state() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    up(&sandbox, &[]).exits(0);
    let protected = PAGES.replacen(
        "options: { parent: folder }",
        "options: { parent: folder, protect: true }",
        1,
    );
    sandbox.write("state.yaml", &protected);
    let done = run_as_previewed(&sandbox, &["up"]);
    assert_eq!(steps(&done), ["same first"]);
    let refused = sandbox.run(&["destroy", "--yes"]).exits(1);
    assert!(refused.stdout.contains("protected"), "{refused:?}");
    assert!(sandbox.path().join("out/first").exists());
    let renamed = PAGES
        .replace("first:", "front:")
        .replace("${first.", "${front.")
        .replacen(
            "options: { parent: folder }",
            "options: { parent: folder, aliases: [first] }",
            1,
        );
    sandbox.write("state.yaml", &renamed);
    let before = files(&sandbox.path().join("out"));
    let done = run_as_previewed(&sandbox, &["up"]);
    assert_eq!(
        done["renamed"],
        serde_json::json!([{"from": "first", "to": "front"}])
    );
    assert_eq!(files(&sandbox.path().join("out")), before);
    sandbox.run(&["show", "front"]).exits(0);
}

#[test]
fn history_and_logs_show_message_and_origin() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    std::fs::create_dir_all(sandbox.path().join(".git/refs/heads")).unwrap();
    sandbox.write(".git/HEAD", "ref: refs/heads/main\n");
    sandbox.write(
        ".git/refs/heads/main",
        "0123456789abcdef0123456789abcdef01234567\n",
    );
    let mut command = sandbox.command(&["up", "-m", "first pages", "--yes"]);
    run(command.env("CI_PIPELINE_ID", "17")).exits(0);
    let last = &sandbox.history()[0];
    assert_eq!(last["message"], "first pages");
    assert_eq!(last["environment"]["git.branch"], "main");
    assert_eq!(last["environment"]["ci.run"], "17");
    let table = sandbox.run(&["history"]).exits(0).stdout;
    assert!(
        table.contains("first pages (main 0123456789, GitLab CI 17)"),
        "{table}"
    );
    let logs = sandbox
        .run(&["logs", "--address", "first", "--update", "@"])
        .exits(0)
        .stdout;
    assert!(logs.contains("create of first is recorded"), "{logs}");
    assert!(!logs.contains("second"), "{logs}");
}

/// Returns a program with three resources of kind `command`, which all run the script `create`.
fn marking(create: &str) -> String {
    let one = |name| {
        format!(
            "  {name}: {{ kind: command, inputs: {{ create: [sh, -c, '{create}'], delete: [\"true\"] }} }}\n"
        )
    };
    format!("resources:\n{}{}{}", one("a"), one("b"), one("c"))
}

#[test]
fn parallel_limits_concurrent_commands() {
    let marks = |sandbox: &Sandbox| std::fs::read_to_string(sandbox.path().join("marks")).unwrap();
    let sandbox = Sandbox::new();
    sandbox.write(
        "state.yaml",
        marking("echo start >>marks; sleep 0.2; echo end >>marks"),
    );
    up(&sandbox, &["--parallel", "1"]).exits(0);
    assert_eq!(marks(&sandbox), "start\nend\n".repeat(3));
    // Each command waits for the other two, so the run succeeds only if all three run concurrently.
    let together = "echo start >>marks; n=0; until [ $(grep -c start marks) = 3 ]; do sleep 0.05; n=$((n+1)); [ $n -lt 400 ] || exit 1; done; echo end >>marks";
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", marking(together));
    up(&sandbox, &["--parallel", "3"]).exits(0);
    assert_eq!(marks(&sandbox), ["start\n".repeat(3), "end\n".repeat(3)].concat());
}

#[test]
fn destroy_preview_exit_code_shows_whether_stack_is_empty() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    up(&sandbox, &[]).exits(0);
    let preview = ["destroy", "--preview", "--detailed-exitcode"];
    // Apart from this client's memory of the stack.
    let files = || {
        let mut found = files(sandbox.path());
        found.retain(|path, _| !path.starts_with(sandbox.path().join("user-state")));
        found
    };
    let before = files();
    let seen = sandbox.run(&preview).exits(3);
    assert!(
        seen.stdout.ends_with("3 to delete, 1 output changed\n"),
        "{seen:?}"
    );
    assert_eq!(files(), before, "a preview must change nothing");
    sandbox.run(&["destroy", "--yes"]).exits(0);
    let nothing = sandbox.run(&preview).exits(0);
    assert_eq!(nothing.stdout, "nothing to do\n");
}

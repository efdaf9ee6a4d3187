//! Reports of `up`, `preview`, `refresh` and `pending`: the changes of a run, and the work that it left unfinished.

use crate::described::spooled;
use crate::first_up::typed;
use crate::programs::{command, signal, started};
use crate::sandbox::Sandbox;
use serde_json::Value;
use std::process::Stdio;

/// Returns a program with these files. The content of each file is its name.
fn pages(names: &[&str]) -> String {
    let page =
        |name: &&str| format!("  {name}: {{ kind: file, inputs: {{ path: {name}, content: {name} }} }}\n");
    format!("resources:\n{}", names.iter().map(page).collect::<String>())
}

#[test]
fn preview_during_a_run_names_the_lock_holder() {
    let sandbox = Sandbox::new();
    let child = started(&sandbox, "touch running; until [ -f go ]; do sleep 0.05; done");
    let pid = format!("(process {}) for `up`", child.id());
    let seen = sandbox.run(&["preview"]).exits(1);
    assert!(
        seen.stderr.contains("is changing the stack") && seen.stderr.contains(&pid),
        "{seen:?}"
    );
    assert!(
        seen.stdout.contains("the other run has begun to create it"),
        "{seen:?}"
    );
    assert!(seen.stdout.contains("hint: wait until the other run"), "{seen:?}");
    assert!(
        !seen.stdout.contains("pending resolve")
            && !seen
                .stdout
                .contains("the outcome of an earlier create is unknown"),
        "{seen:?}"
    );
    let pending = sandbox.run(&["pending", "list"]).exits(0);
    assert!(pending.stderr.contains(&pid), "{pending:?}");
    let listed = sandbox.run(&["list"]).exits(0);
    assert!(listed.stderr.contains("statectl lock status"), "{listed:?}");
    sandbox.write("go", "");
    assert!(child.wait_with_output().unwrap().status.success());
    let after = sandbox.run(&["preview"]).exits(0);
    assert_eq!((&*after.stdout, &*after.stderr), ("nothing to do\n", ""));
}

#[test]
fn preview_of_an_idle_locked_stack_names_the_holder() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", command("slow", "sleep 30", ""));
    sandbox.run(&["up", "--yes", "--timeout", "500ms"]).exits(18);
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let seen = sandbox.run(&["preview"]).exits(1);
        assert!(seen.stderr.contains("locked by ana@ci-17"), "{seen:?}");
        assert!(
            seen.stdout
                .contains("the outcome of an earlier create is unknown"),
            "the preview must report the pending operation of the earlier run: {seen:?}"
        );
        let pending = sandbox.run(&["pending", "list"]).exits(0);
        assert_eq!(pending.stderr, "", "{pending:?}");
        session.close().await.unwrap();
    });
}

#[test]
fn recorded_failure_is_reported_with_its_revision() {
    for (script, more, code, text) in [
        (
            "exit 1",
            "1h",
            1,
            "failed: 0 done, 1 failed and recorded as unfinished: now revision 1-",
        ),
        (
            "sleep 30",
            "1s",
            18,
            "failed: 0 done, 1 left pending: now revision 1-",
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("state.yaml", command("bad", script, ""));
        let ran = sandbox.run(&["up", "--yes", "--timeout", more]).exits(code);
        let last = ran.stdout.lines().last().unwrap();
        assert!(last.starts_with(text), "{ran:?}");
        assert!(!ran.stdout.contains("nothing"), "{ran:?}");
        let sandbox = Sandbox::new();
        sandbox.write("state.yaml", command("bad", script, ""));
        let ran = sandbox
            .run(&["up", "--yes", "--json", "--timeout", more])
            .exits(code);
        let ran = ran.data("up");
        assert_eq!(ran["changed"], true, "{ran}");
        assert_eq!(ran["failures"][0]["unfinished"], code == 1, "{ran}");
    }
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", command("bad", "exit 75", ""));
    let ran = sandbox.run(&["up", "--yes", "--json"]).exits(1).data("up");
    assert_eq!(
        ran["changed"], false,
        "a step that failed without effect must change nothing: {ran}"
    );
    let ran = sandbox.run(&["up", "--yes"]).exits(1);
    assert!(ran.stdout.ends_with("failed: 0 done, 1 failed\n"), "{ran:?}");
}

#[test]
fn refresh_marks_missing_resources_in_json() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", pages(&["a", "b"]));
    sandbox.run(&["up", "--yes"]).exits(0);
    std::fs::remove_file(sandbox.path().join("a")).unwrap();
    sandbox.write("b", "scribbled");
    let done = sandbox
        .run(&["refresh", "--yes", "--json"])
        .exits(0)
        .data("refresh");
    let gone = |step: &Value| (step["address"].clone(), step.get("gone").cloned());
    let mut text: Vec<_> = done["steps"].as_array().unwrap().iter().map(gone).collect();
    text.sort_by_key(|(address, _)| address.to_string());
    assert_eq!(
        text,
        [("a".into(), Some(true.into())), ("b".into(), None)],
        "{done}"
    );
}

#[test]
fn interrupt_is_shown_in_result_and_history() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", "resources: {}");
    let program = command(
        "slow",
        "touch running; sleep 0.5",
        "  later: { kind: file, options: { depends_on: [slow] }, inputs: { path: later, content: x } }\n",
    );
    sandbox.write("state.yaml", program);
    let mut up = sandbox.command(&["up", "--yes", "--json"]);
    let child = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !sandbox.path().join("running").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let done = &done["data"];
    assert_eq!(
        (&done["interrupted"], &done["result"]),
        (&true.into(), &"interrupted".into())
    );
    assert_eq!(done["skipped"][0]["address"], "later", "{done}");
    assert_eq!(sandbox.history()[0]["result"], "interrupted");
}

#[test]
fn steps_skipped_after_a_failure_are_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..12).map(|number| format!("page{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rest = pages(&names).replace("resources:\n", "");
    sandbox.write("state.yaml", command("bad", "exit 75", &rest));
    let ran = sandbox.run(&["up", "--yes", "--parallel", "1"]).exits(1);
    let lines: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("skipped:"))
        .collect();
    let [line] = *lines else {
        panic!("expected one line: {ran:?}");
    };
    assert!(
        line.starts_with("skipped: page0, ")
            && line.ends_with(" and 2 more: not started, because the run stopped"),
        "{line}"
    );
    let up = ["up", "--yes", "--parallel", "1", "--json"];
    let all = sandbox.run(&up).exits(1).data("up");
    assert_eq!(all["skipped"].as_array().unwrap().len(), 12, "{all}");
    let one = sandbox.run(&[&up[..], &["--target", "bad", "--target", "page1"]].concat());
    let one = one.exits(1).data("up");
    assert_eq!(
        one["skipped"].as_array().unwrap().len(),
        1,
        "untargeted resources must not be reported: {one}"
    );
}

#[test]
fn rename_is_shown_in_plan_question_and_summary() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "state.yaml",
        pages(&["a", "b"]).replacen("inputs", "options: { protect: true }, inputs", 1),
    );
    sandbox.run(&["up", "--yes"]).exits(0);
    let renamed =
        "resources:\n  c: { kind: file, options: { aliases: [b] }, inputs: { path: b, content: b } }\n";
    sandbox.write("state.yaml", renamed);
    let refused = sandbox.run(&["up", "--yes"]).exits(1);
    assert!(
        refused.stdout.contains("planning failed: 1 to rename")
            && refused.stdout.contains("nothing was changed"),
        "{refused:?}"
    );
    let both = pages(&["a"]).replacen("inputs", "options: { protect: true }, inputs", 1);
    sandbox.write("state.yaml", renamed.replacen("resources:\n", &both, 1));
    let Some((code, screen)) = typed(&sandbox.command(&["up"]), "yes\n") else {
        return;
    };
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("Apply these changes to stack default (b becomes c)?"),
        "{screen}"
    );
    assert!(screen.contains("1 renamed: now revision 2-"), "{screen}");
}

#[test]
fn pending_list_names_the_file_of_a_kept_result() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", command("slow", "sleep 30", ""));
    sandbox.run(&["up", "--yes", "--timeout", "500ms"]).exits(18);
    let listed = |sandbox: &Sandbox| {
        let listed = sandbox.run(&["pending", "list", "--json"]).exits(0);
        listed.data("pending-list")[0].clone()
    };
    let before = listed(&sandbox);
    let id = before["id"].as_str().unwrap();
    assert!(before.get("kept-in").is_none(), "{before}");
    let folder = sandbox.path().join("user-state/statectl/spool");
    std::fs::create_dir_all(&folder).unwrap();
    let written = spooled(&sandbox, id);
    let lineage = sandbox.on_stack(async |stack| stack.lineage());
    let named = folder.join(format!("{lineage}-{id}.json"));
    std::fs::rename(written, &named).unwrap();
    // A file that contains no result of this stack must not be listed, even if its name matches.
    std::fs::write(folder.join(format!("{lineage}-other.json")), "{}").unwrap();
    let file = named.to_str().unwrap();
    assert_eq!(listed(&sandbox)["kept-in"], file);
    let hint = format!("`statectl pending resolve --from {file}`");
    let listed = sandbox.run(&["pending", "list"]).exits(0);
    assert!(
        listed.stdout.contains("kept in a file") && listed.stdout.contains(&hint),
        "{listed:?}"
    );
    for answer in ["--accept", "--done"] {
        let refused = sandbox.run(&["pending", "resolve", id, answer]);
        assert!(refused.code != 0 && refused.stderr.contains(&hint), "{refused:?}");
    }
    sandbox.run(&["pending", "resolve", "--from", file]).exits(0);
    let listed = sandbox.run(&["pending", "list"]).exits(0);
    assert_eq!(listed.stdout, "no pending operations\n");
}

#[test]
fn targeted_run_reports_left_replacements_in_one_line() {
    let sandbox = Sandbox::new();
    let program = "resources:\n  a: { kind: \"random:id\", options: { delete_before_replace: false } }\n  b: { kind: file, inputs: { path: b, content: \"${a.hex}\" } }\n";
    sandbox.write("state.yaml", program);
    sandbox.run(&["up", "--yes"]).exits(0);
    let left = sandbox
        .run(&["up", "--yes", "--target", "a", "--replace", "a"])
        .exits(0);
    let line = left
        .stderr
        .lines()
        .find(|line| line.contains("is replaced but not deleted"));
    assert!(
        line.is_some_and(|line| line.starts_with("warning: a (deposed ")),
        "{left:?}"
    );
}

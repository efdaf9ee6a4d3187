//! `salvage` and `restore`: they change a store that is damaged already, so each kill meets them without a second copy.

use super::{Bench, NETWORK, calls, copy};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files below a folder, by their path in it.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    drop(found.insert(path.strip_prefix(root).unwrap().into(), fs::read(&path).unwrap()));
                }
            }
        }
    }
    found
}

fn stack_folder(store: &Path) -> PathBuf {
    let mut stacks = fs::read_dir(store.join("stacks")).unwrap();
    stacks.next().unwrap().unwrap().path()
}

/// The exports of the revisions that can be read.
fn exports(bench: &Bench, revisions: &[String]) -> BTreeMap<String, String> {
    let export = |revision: &String| {
        let arguments = ["export", "--format", "native", "--at", revision];
        let exported = bench.sandbox.run(&arguments);
        (exported.code == 0).then(|| (revision.clone(), exported.stdout))
    };
    revisions.iter().filter_map(export).collect()
}

fn revisions(bench: &Bench) -> Vec<String> {
    let history = bench.sandbox.history();
    history
        .iter()
        .map(|line| line["id"].as_str().unwrap().to_owned())
        .collect()
}

/// An export without its serial, which each restore advances.
fn without_serial(exported: &str) -> String {
    let lines = exported.lines().filter(|line| !line.contains("\"serial\""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Each file that the damage left is still somewhere in the store. Locks are evidence of nothing.
fn keeps(bench: &Bench, left: &BTreeMap<PathBuf, Vec<u8>>, case: &str) {
    let stored = contents(&bench.sandbox.path().join(".state"));
    for (path, bytes) in left {
        let is_lock = path.to_str().unwrap().contains("lock");
        assert!(
            is_lock || stored.values().any(|kept| kept == bytes),
            "{case}: {} is lost",
            path.display()
        );
    }
}

#[test]
fn salvage_killed_at_any_call_is_finished_by_the_next() {
    let Some(calls) = calls() else { return };
    for damage in ["head", "segment"] {
        let mut before = Vec::new();
        let bench = Bench::new(|sandbox| {
            before = sandbox.history();
            let stack = stack_folder(&sandbox.path().join(".state"));
            if damage == "head" {
                return fs::remove_file(stack.join("head.json")).unwrap();
            }
            let journal = contents(&stack.join("journal"));
            let newest = journal
                .keys()
                .rfind(|path| path.extension().is_some_and(|kind| kind == "log"));
            let newest = stack.join("journal").join(newest.unwrap());
            fs::write(&newest, vec![0; fs::read(&newest).unwrap().len()]).unwrap();
            for path in journal
                .keys()
                .filter(|path| path.extension().is_some_and(|kind| kind == "frames"))
            {
                fs::remove_file(stack.join("journal").join(path)).unwrap();
            }
        });
        let before: Vec<_> = before
            .iter()
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect();
        let left = contents(&stack_folder(&bench.sandbox.path().join(".state")));
        let intact = exports(&bench, &before);
        assert!(!intact.is_empty(), "{damage}: nothing survives");
        bench.succeeds(&["salvage", "--yes"], "not killed");
        let state = without_serial(&bench.succeeds(&["export"], "not killed").stdout);

        let kills = bench.kill_everywhere(&calls, &["salvage", "--yes"], |case| {
            let case = &format!("{damage}: {case}");
            keeps(&bench, &left, case);
            bench.succeeds(&["salvage", "--yes"], case);
            keeps(&bench, &left, case);
            bench.succeeds(&["verify", "--deep"], case);
            assert!(
                exports(&bench, &before) == intact,
                "{case}: a revision is lost or changed"
            );
            let salvaged = without_serial(&bench.succeeds(&["export"], case).stdout);
            assert!(salvaged == state, "{case}: another state is current");
            let idle = bench.succeeds(&["salvage", "--yes"], case);
            assert!(idle.stdout.contains("nothing is damaged"), "{case}: {idle:?}");
        });
        assert!(kills > 20, "{damage}: too few kills: {kills}");
    }
}

#[test]
fn restore_killed_at_any_call_is_finished_by_the_next() {
    let Some(calls) = calls() else { return };
    let restore = ["restore", "backup", "--yes"];
    for method in ["append", "replace"] {
        let mut backup = String::new();
        let mut before = Vec::new();
        let bench = Bench::new(|sandbox| {
            copy(&sandbox.path().join(".state"), &sandbox.path().join("backup"));
            backup = without_serial(&sandbox.run(&["export"]).exits(0).stdout);
            sandbox.run(&["taint", NETWORK, "--yes"]).exits(0);
            before = sandbox.history();
            if method == "replace" {
                let stack = stack_folder(&sandbox.path().join(".state"));
                fs::remove_file(stack.join("head.json")).unwrap();
            }
        });
        let left = contents(&stack_folder(&bench.sandbox.path().join(".state")));
        let from = contents(&bench.sandbox.path().join("backup"));
        let present = bench.sandbox.run(&["export"]);
        let present = (present.code == 0).then(|| without_serial(&present.stdout));
        assert!(
            present.as_ref() != Some(&backup),
            "{method}: the backup has the present state"
        );

        let kills = bench.kill_everywhere(&calls, &restore, |case| {
            let case = &format!("{method}: {case}");
            if let Some(present) = &present {
                let exported = without_serial(&bench.succeeds(&["export"], case).stdout);
                assert!(
                    exported == *present || exported == backup,
                    "{case}: neither state is current"
                );
            } else {
                keeps(&bench, &left, case);
            }
            bench.succeeds(&restore, case);
            let exported = without_serial(&bench.succeeds(&["export"], case).stdout);
            assert!(exported == backup, "{case}: another state is current");
            bench.succeeds(&["verify", "--deep"], case);
            if present.is_some() {
                let kept = revisions(&bench);
                let mut old = before.iter().map(|line| line["id"].as_str().unwrap());
                assert!(
                    old.all(|id| kept.iter().any(|kept| kept == id)),
                    "{case}: a revision is lost"
                );
            } else {
                keeps(&bench, &left, case);
            }
            assert!(
                contents(&bench.sandbox.path().join("backup")) == from,
                "{case}: the backup changed"
            );
            let idle = bench.succeeds(&restore, case);
            assert!(idle.stdout.contains("already"), "{case}: {idle:?}");
        });
        assert!(kills > 20, "{method}: too few kills: {kills}");
    }
}

//! The first `up` creates store, identity and stack, but only after a confirmation.

use crate::deploying::{PAGES, example};
use crate::sandbox::{Sandbox, fixture, run};
use state_core::testkit::run::skip;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns all paths below a folder.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in std::fs::read_dir(folder).unwrap() {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(paths(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// The first `up` plans before and after it creates the stack. Both plans may list parallel resources in different
/// orders; this alone must not make `up` show the second plan.
#[test]
fn first_up_shows_the_plan_of_parallel_resources_once() {
    for _ in 0..4 {
        let sandbox = Sandbox::new();
        let example = example();
        let up = ["up", &*example, "--config", "dir=site", "--yes"];
        let ran = sandbox.run(&up).exits(0);
        assert_eq!(ran.stderr.matches("8 to create").count(), 1, "{ran:?}");
    }
}

#[test]
fn first_ups_at_once_create_one_identity() {
    let sandbox = Sandbox::new();
    let stores: Vec<_> = (0..4)
        .map(|number| sandbox.path().join(number.to_string()))
        .collect();
    let running = stores.iter().map(|store| {
        std::fs::create_dir(store).unwrap();
        std::fs::write(store.join("state.yaml"), PAGES).unwrap();
        let mut command = sandbox.sealing(&["up", "--yes"]);
        command
            .current_dir(store)
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        command.spawn().unwrap()
    });
    let running: Vec<_> = running.collect();
    let mut created = 0;
    for process in running {
        let output = process.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        created += stderr.matches("created your identity").count();
    }
    assert_eq!(created, 1);
    for store in stores {
        let listed = run(sandbox.sealing(&["list"]).current_dir(store));
        assert_eq!(listed.exits(0).stderr, "");
    }
}

#[test]
fn first_ups_of_one_store_at_once_share_one_stack() {
    for _ in 0..3 {
        let sandbox = Sandbox::new();
        sandbox.write("state.yaml", PAGES);
        let up = ["up", "--yes", "--lock-timeout", "60s"];
        let running = (0..4).map(|_| {
            let mut command = sandbox.sealing(&up);
            command.stderr(Stdio::piped()).stdout(Stdio::null());
            command.spawn().unwrap()
        });
        let running: Vec<_> = running.collect();
        for process in running {
            let output = process.wait_with_output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{stderr}");
        }
        let listed = run(&mut sandbox.sealing(&["stack", "ls", "--json"])).exits(0);
        assert_eq!(
            listed.data("stack-list").as_array().unwrap().len(),
            1,
            "{listed:?}"
        );
        run(&mut sandbox.sealing(&["verify", "--deep"])).exits(0);
    }
}

#[test]
fn unusable_identity_is_a_warning_unless_it_is_needed() {
    let sandbox = Sandbox::with_shop();
    let file = sandbox.path().join("user-config/statectl/identity.txt");
    let home = |arguments: &[&str]| {
        let mut command = sandbox.sealing(arguments);
        command.env("XDG_CONFIG_HOME", sandbox.path().join("user-config"));
        run(&mut command)
    };
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for damaged in ["", "garbage"] {
        std::fs::write(&file, damaged).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        for read in [&["list"][..], &["export"], &["verify", "--deep"]] {
            let ran = home(read).exits(0);
            assert!(ran.stderr.contains("continuing without your identity"), "{ran:?}");
        }
        home(&["taint", "terraform_data.database", "--yes"]).exits(0);
        // A new stack is encrypted: the damaged file isn't replaced.
        let refused = home(&["stack", "new", "sealed"]).exits(12);
        assert!(refused.stderr.contains("move it away"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damaged);
        home(&["untaint", "terraform_data.database", "--yes"]).exits(0);
    }
}

#[test]
fn unconfirmed_first_up_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    let before = paths(sandbox.path());
    let home = |mut command: Command| run(command.env("HOME", sandbox.path()));
    let tries: [&[&str]; 4] = [
        &["up"],
        &["up", "--json"],
        &["up", "--stack", "net/prod"],
        &["up", "--policy", "all"],
    ];
    for arguments in tries {
        home(sandbox.sealing(arguments)).exits(4);
        assert_eq!(paths(sandbox.path()), before, "{arguments:?}");
    }
    // An invalid program must fail before the confirmation, and create nothing.
    sandbox.write("state.yaml", PAGES.replace("content: one", "mode: '0600'"));
    let wrong = home(sandbox.sealing(&["up", "--yes"])).exits(1);
    assert!(wrong.stdout.contains("nothing was changed"), "{wrong:?}");
    assert_eq!(paths(sandbox.path()), before);
    sandbox.write("state.yaml", PAGES);
    sandbox.run(&["init"]).exits(0);
    let before = paths(sandbox.path());
    home(sandbox.sealing(&["up"])).exits(4);
    assert_eq!(
        paths(sandbox.path()),
        before,
        "an existing store must be unchanged"
    );
    let made = home(sandbox.sealing(&["up", "--yes"])).exits(0);
    assert_eq!(
        made.stderr.matches("3 to create").count(),
        1,
        "the plan must be shown once: {made:?}"
    );
}

/// Runs a command on a pseudoterminal with typed answers.
pub(crate) fn typed(command: &Command, answers: &str) -> Option<(i32, String)> {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    let mut script = Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let folder = command.get_current_dir().unwrap().to_owned();
    let child = script
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skip("script", "answers on a terminal");
        return None;
    };
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(answers.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    Some((
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    ))
}

#[test]
fn declined_first_up_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PAGES);
    let before = paths(sandbox.path());
    let Some((code, screen)) = typed(&sandbox.sealing(&["up"]), "no\n") else {
        return;
    };
    assert_eq!(code, 4, "{screen}");
    assert!(screen.contains("not confirmed; nothing was changed"), "{screen}");
    assert_eq!(paths(sandbox.path()), before);
    let (code, screen) = typed(&sandbox.sealing(&["up"]), "yes\n").unwrap();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert!(
        screen.contains("created your identity") && screen.contains("3 created"),
        "{screen}"
    );
}

#[test]
fn first_commands_at_the_same_time_share_one_identity() {
    for _ in 0..4 {
        let sandbox = Sandbox::new();
        let shop = fixture("shop.tfstate");
        let stores: Vec<String> = (0..6).map(|number| format!("store-{number}")).collect();
        let start = |store: &String| {
            let mut command =
                sandbox.sealing(&["import", shop.to_str().unwrap(), "--backend", store, "--yes"]);
            command
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let started: Vec<_> = stores.iter().map(start).collect();
        for child in started {
            let output = child.wait_with_output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        for store in &stores {
            let listed = sandbox.run(&["list", "--backend", store]).exits(0);
            assert!(!listed.stderr.contains("authenticity not checked"), "{listed:?}");
        }
    }
}

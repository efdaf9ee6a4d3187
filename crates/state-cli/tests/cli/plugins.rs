//! age plugins: a key service that holds the key in another process, and plugins that a store names.

use crate::sandbox::{self, CommandOutput, Sandbox, run};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

const RECIPIENT: &str = "age1keyservice1qypqxpq0e8dv4";
const IDENTITY: &str = "AGE-PLUGIN-KEYSERVICE-1QYPQXPQJGCRVF\n";
const EVIL: &str = "age1evil1qypqxpqx7xe7q";

/// A plugin that passes file keys to a key service on loopback. The wrapped form is a handle of the service.
const PLUGIN: &str = r#"#!/bin/bash
read_stanza() {
    IFS= read -r head || exit 1
    body=
    while IFS= read -r line; do
        body+=$line
        [ ${#line} -lt 64 ] && break
    done
}
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$KEY_SERVICE_PORT" || return 1
    printf '%s %s\n' "$1" "$2" >&3
    IFS= read -r answer <&3
}
while read_stanza; do
    case "$head" in
        "-> wrap-file-key"*) key=$body ;;
        "-> recipient-stanza 0 keyservice"*) key=$body ;;
        "-> done"*) break ;;
    esac
done
if [ "$1" = --age-plugin=recipient-v1 ]; then
    ask wrap "$key" && printf -- '-> recipient-stanza 0 keyservice\n%s\n' "$answer" && read_stanza
elif [ -n "$key" ]; then
    # A file that isn't wrapped for this plugin has no stanza of it.
    if ask unwrap "$key" && [ "$answer" != denied ]; then
        printf -- '-> file-key 0\n%s\n' "$answer"
    else
        # "the key service refuses"
        printf -- '-> error identity 0\n%s\n' dGhlIGtleSBzZXJ2aWNlIHJlZnVzZXM
    fi
    read_stanza
fi
printf -- '-> done\n\n'
"#;

/// How the key service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Works,
    Denies,
    Hangs,
}

/// A key service in this process, which is neither `statectl` nor the plugin.
struct KeyService {
    port: u16,
    mode: Arc<Mutex<Mode>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl KeyService {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, calls) = (
            Arc::new(Mutex::new(Mode::Works)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let service = Self {
            port,
            mode: Arc::clone(&mode),
            calls: Arc::clone(&calls),
        };
        std::thread::spawn(move || {
            let mut keys: BTreeMap<String, String> = BTreeMap::new();
            let mut hanging = Vec::new();
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let mut line = String::new();
                BufReader::new(&connection).read_line(&mut line).unwrap();
                let (call, argument) = line.trim_end().split_once(' ').unwrap();
                calls.lock().unwrap().push(call.to_owned());
                let answer = match (*mode.lock().unwrap(), call) {
                    (Mode::Hangs, _) => {
                        hanging.push(connection);
                        continue;
                    }
                    (Mode::Denies, _) => "denied".to_owned(),
                    (Mode::Works, "wrap") => {
                        // Base64 of six characters, so that it is canonical.
                        let handle = format!(
                            "aGFuZGx{}",
                            char::from(b'l' - u8::try_from(keys.len() % 8).unwrap())
                        );
                        keys.insert(handle.clone(), argument.to_owned());
                        handle
                    }
                    (Mode::Works, _) => keys.get(argument).cloned().unwrap_or("denied".to_owned()),
                };
                writeln!(connection, "{answer}").unwrap_or_default();
            }
        });
        service
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn calls(&self, call: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|made| *made == call)
            .count()
    }
}

fn script(folder: &Path, name: &str, content: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// A command of a user with the plugins of the sandbox on the path.
fn user(sandbox: &Sandbox, who: &str, service: Option<&KeyService>, arguments: &[&str]) -> Command {
    let path = format!(
        "{}:{}",
        sandbox.path().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = sandbox::user(sandbox, who, arguments);
    command.env("PATH", path).env(
        "KEY_SERVICE_PORT",
        service.map_or(1, |service| service.port).to_string(),
    );
    command
}

/// A stack of Anna, who has a file identity, and of CI, whose identity is one of the key service.
fn with_key_service(service: &KeyService) -> Sandbox {
    let sandbox = Sandbox::new();
    script(&sandbox.path().join("bin"), "age-plugin-keyservice", PLUGIN);
    let program = "resources:\n  a: { kind: 'random:password', inputs: { length: 24 } }\n";
    sandbox.write("state.yaml", program);
    let identity = sandbox.path().join("ci/statectl/identity.txt");
    std::fs::create_dir_all(identity.parent().unwrap()).unwrap();
    std::fs::write(&identity, IDENTITY).unwrap();
    std::fs::set_permissions(&identity, std::fs::Permissions::from_mode(0o600)).unwrap();
    let anna = |arguments: &[&str]| run(&mut user(&sandbox, "anna", Some(service), arguments)).exits(0);
    anna(&["up", "--yes"]);
    anna(&["recipients", "add", "--name", "ci", RECIPIENT]);
    sandbox
}

fn ci(sandbox: &Sandbox, service: &KeyService, arguments: &[&str]) -> CommandOutput {
    let mut command = user(sandbox, "ci", Some(service), arguments);
    run(command.env("STATECTL_AGE_PLUGIN_TIMEOUT", "1s"))
}

#[test]
fn key_service_opens_and_wraps_the_data_key() {
    let service = KeyService::start();
    let sandbox = with_key_service(&service);
    assert_eq!((service.calls("wrap"), service.calls("unwrap")), (1, 0));
    let shown = ci(&sandbox, &service, &["show", "a", "--show-secrets"]).exits(0);
    let secret = run(&mut user(
        &sandbox,
        "anna",
        None,
        &["show", "a", "--show-secrets"],
    ))
    .exits(0);
    assert_eq!(shown.stdout, secret.stdout);
    // CI may replace the key, because its own identity names the plugin.
    ci(&sandbox, &service, &["rekey", "--yes"]).exits(0);
    ci(&sandbox, &service, &["taint", "a", "--yes"]).exits(0);
    assert_eq!(service.calls("wrap"), 2);
    run(&mut user(&sandbox, "anna", None, &["verify", "--deep"])).exits(0);
}

#[test]
fn failing_key_service_exits_12_with_its_reason() {
    let service = KeyService::start();
    let sandbox = with_key_service(&service);
    ci(&sandbox, &service, &["list"]).exits(0);
    for (mode, reason) in [
        (Mode::Denies, "the key service refuses"),
        (Mode::Hangs, "gave no answer within 1s"),
    ] {
        service.set(mode);
        let before = service.calls("unwrap");
        for arguments in [
            &["list"][..],
            &["show", "a", "--show-secrets"],
            &["taint", "a", "--yes"],
        ] {
            let refused = ci(&sandbox, &service, arguments).exits(12);
            assert!(
                refused.stderr.contains(reason) && refused.stderr.contains("hint: "),
                "{mode:?} {arguments:?}: {refused:?}"
            );
        }
        assert_eq!(
            service.calls("unwrap") - before,
            3,
            "{mode:?}: one call for each command"
        );
    }
    service.set(Mode::Works);
    ci(&sandbox, &service, &["taint", "a", "--yes"]).exits(0);
}

#[test]
fn missing_key_service_exits_12() {
    let service = KeyService::start();
    let sandbox = with_key_service(&service);
    ci(&sandbox, &service, &["list"]).exits(0);
    // Nothing listens on the port.
    let refused = run(&mut user(&sandbox, "ci", None, &["list"])).exits(12);
    assert!(refused.stderr.contains("stack default"), "{refused:?}");
    std::fs::remove_file(sandbox.path().join("bin/age-plugin-keyservice")).unwrap();
    let refused = ci(&sandbox, &service, &["list"]).exits(12);
    assert!(refused.stderr.contains("age-plugin-keyservice"), "{refused:?}");
}

#[test]
fn recipient_of_a_store_starts_no_plugin() {
    let sandbox = Sandbox::new();
    let (started, bin) = (sandbox.path().join("started"), sandbox.path().join("bin"));
    let plugin = format!("#!/bin/sh\ntouch '{}'\nexit 1\n", started.display());
    let program = "resources:\n  a: { kind: 'random:password', inputs: { length: 24 } }\noutputs: { a: '${a.result}' }\n";
    sandbox.write("state.yaml", program);
    let anna = |arguments: &[&str]| run(&mut user(&sandbox, "anna", None, arguments));
    let eve = |arguments: &[&str]| run(&mut user(&sandbox, "eve", None, arguments));
    anna(&["up", "--yes"]).exits(0);
    let eves = eve(&["identity", "--new"]).exits(0).stdout;
    anna(&["recipients", "add", eves.trim()]).exits(0);

    // Eve, a legitimate recipient, adds recipients of a plugin that does no harm on her own machine.
    let harmless = PLUGIN
        .replace("keyservice", "evil")
        .replace("ask wrap \"$key\"", "answer=$key");
    script(&bin, "age-plugin-evil", &harmless);
    eve(&["recipients", "add", EVIL]).exits(0);
    eve(&["recipients", "add", "--outputs", EVIL]).exits(0);

    script(&bin, "age-plugin-evil", &plugin);
    let bobs = run(&mut user(&sandbox, "bob", None, &["identity", "--new"]))
        .exits(0)
        .stdout;
    for arguments in [
        &["rekey", "--yes"][..],
        &["recipients", "add", bobs.trim()],
        &["recipients", "remove", eves.trim(), "--yes"],
    ] {
        let refused = anna(arguments).exits(12);
        assert!(
            refused.stderr.contains("age-plugin-evil") && refused.stderr.contains("STATECTL_AGE_PLUGINS"),
            "{arguments:?}: {refused:?}"
        );
    }
    // Publishes outputs to the recipient.
    let changed = anna(&["up", "--replace", "a", "--yes"]);
    assert!([0, 12].contains(&changed.code), "{changed:?}");
    for arguments in [
        &["list"][..],
        &["outputs"],
        &["recipients", "list"],
        &["doctor"],
        &["verify"],
    ] {
        anna(arguments).exits(0);
    }
    assert!(!started.exists(), "a recipient of the store started a plugin");

    // The user can trust the plugin, or get rid of its recipients.
    let mut trusting = user(&sandbox, "anna", None, &["rekey", "--yes"]);
    run(trusting.env("STATECTL_AGE_PLUGINS", "other, evil")).exits(12);
    assert!(started.exists());
    anna(&["recipients", "remove", EVIL, "--yes"]).exits(0);
    anna(&["recipients", "remove", "--outputs", EVIL, "--yes"]).exits(0);
    anna(&["rekey", "--yes"]).exits(0);
}

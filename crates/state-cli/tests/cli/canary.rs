//! Runs many commands on a sealed store. No secret may appear, in any encoding, in stored data, output, logs or debug
//! output.

mod by_hand;

use crate::sandbox::{CommandOutput, Sandbox, fixture, run};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The secret. JSON escapes some of its characters, so the test searches for the plain and for the escaped form.
const CANARY: &str = "c4nary\"\\ö-w4tch-7he-m1ne";

/// The secret of the fixture, which the canary replaces.
const BEFORE: &str = "correct horse battery staple";

/// Returns all encodings in which the secret could appear.
fn forms() -> Vec<String> {
    let bytes = CANARY.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let escaped = serde_json::to_string(CANARY).unwrap();
    let escaped = escaped.trim_matches('"').to_owned();
    let ascii: String = CANARY.chars().flat_map(char::escape_default).collect();
    let mut forms = vec![
        CANARY.to_owned(),
        escaped.clone(),
        escaped.replace('ö', "\\u00f6"),
        escaped.replace('\\', "\\\\"),
        ascii,
        format!("{CANARY:?}").trim_matches('"').to_owned(),
        hex.to_uppercase(),
        hex,
        "w4tch-7he".to_owned(),
    ];
    // Base64 encodes the secret in three ways, depending on its offset. The digits at both ends also encode
    // neighbouring bytes and are cut off.
    for skip in 0..3 {
        let padded = [&vec![0; skip][..], bytes].concat();
        let encoded = base64(&padded);
        let whole = encoded.len() - 4;
        forms.push(encoded[skip.div_ceil(2) * 2 + 2..whole].to_owned());
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, &byte| word << 8 | u32::from(byte))
            << (8 * (3 - chunk.len()));
        for at in 0..4 {
            out.push(char::from(DIGITS[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    out
}

/// Returns the encoding of the secret that a text contains; `None` if it contains none.
fn found(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    forms().into_iter().find(|form| text.contains(form))
}

/// Searches all files below a folder, and returns their kinds.
fn search(root: &Path) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            assert_eq!(found(&bytes), None, "{}", path.display());
            if path.extension().is_some_and(|extension| extension == "zst") {
                bytes = zstd::stream::decode_all(&bytes[..]).unwrap();
                assert_eq!(found(&bytes), None, "{}, unpacked", path.display());
            }
            kinds.insert(kind(path.strip_prefix(root).unwrap()));
        }
    }
    kinds
}

/// The kind of a file: its path, with `*` for the parts that differ between stores and revisions.
fn kind(path: &Path) -> String {
    let varies = |part: &str| part.chars().any(|c| c.is_ascii_digit());
    let parts = path.iter().map(|part| {
        let part = part.to_str().unwrap();
        match part.split_once('.') {
            _ if !varies(part) => part.to_owned(),
            Some((_, ending)) if !varies(ending) => format!("*.{ending}"),
            _ => "*".to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Kinds of files in which a secret could lie; the search must have seen each.
const KINDS: [&str; 11] = [
    ".state/format",
    ".state/names/default/default.json",
    ".state/stacks/*/head.json",
    ".state/stacks/*/journal/*.log",
    ".state/stacks/*/keys/*.age",
    ".state/stacks/*/logs/*.jsonl.zst",
    ".state/stacks/*/meta.json",
    ".state/stacks/*/snapshots/*.json.zst",
    ".state/stacks/*/updates/*.page",
    "user-state/statectl/seen/*/names/default/default",
    "user-state/statectl/seen/*/stacks/*.json",
];

/// The sandbox in which all commands of the test run.
struct Worked {
    sandbox: Sandbox,
}

impl Worked {
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.sandbox.sealing(arguments);
        command
            .env("XDG_CONFIG_HOME", self.sandbox.path().join("anna"))
            .env("RUST_BACKTRACE", "1")
            .env("RUST_LOG", "trace");
        command
    }

    /// Runs a command with the most verbose output. Asserts its exit code, and that the command prints no secret.
    fn checked(&self, arguments: &[&str], codes: &[i32]) -> CommandOutput {
        let ran = run(&mut self.command(&[arguments, &["-vvv", "--yes"]].concat()));
        assert!(codes.contains(&ran.code), "{arguments:?}: {ran:#?}");
        for text in [&ran.stdout, &ran.stderr] {
            assert_eq!(found(text.as_bytes()), None, "{arguments:?}: {ran:#?}");
        }
        ran
    }

    /// Runs every command that reads the stack, in text form and as JSON.
    fn run_reading_commands(&self) {
        for reading in [
            &["list", "--long"][..],
            &["show", "terraform_data.database"],
            &["outputs"],
            &["history"],
            &["logs", "--level", "trace"],
            &["diff"],
            &["blame", "terraform_data.database"],
            &["find", "kind:terraform_data"],
            &["find", CANARY],
            &["graph"],
            &["pending", "list"],
            &["export", "--masked"],
            &["export", "--format", "native"],
            &["stack", "ls"],
            &["trust"],
            &["recipients", "list"],
            &["verify", "--deep"],
        ] {
            // The command line itself contains the secret and the output may repeat it, so the output isn't searched.
            if reading.contains(&CANARY) {
                run(&mut self.command(reading));
                continue;
            }
            // After `by_hand` has added other resources, the state can't be exported as a Terraform state.
            let codes = if reading == ["export", "--masked"] {
                &[0, 1][..]
            } else {
                &[0]
            };
            self.checked(reading, codes);
            self.checked(&[reading, &["--json"]].concat(), codes);
        }
    }
}

fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if is_plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Writes the fixture with the canary in place of its secret and in unmarked places. Returns the path of the file.
fn fixture_with_canary(folder: &Path) -> String {
    let original = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let escaped = serde_json::to_string(CANARY).unwrap();
    let file = folder.join("shop.tfstate");
    let original = original.replace(BEFORE, escaped.trim_matches('"'));
    // Attributes that Terraform doesn't mark, a copy in a longer string, in JSON and in a URL, and an output.
    let inside = serde_json::to_string(&format!("a={CANARY} b={escaped}")).unwrap();
    let url = percent_encoded(CANARY);
    let resource = |kind: &str, attributes: String| {
        format!(
            r#"{{"mode": "managed", "type": "{kind}", "name": "canary",
            "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
            "instances": [{{"schema_version": 0, "attributes": {attributes}, "sensitive_attributes": []}}]}},"#
        )
    };
    let more = [
        resource(
            "random_password",
            format!(r#"{{"id": "none", "result": {escaped}}}"#),
        ),
        resource(
            "x_config",
            format!(r#"{{"id": "c", "text": {inside}, "list": ["x", {escaped}]}}"#),
        ),
        resource(
            "x_url",
            format!(r#"{{"id": "u", "url": "postgres://anna:{url}@db"}}"#),
        ),
    ];
    let output = format!(r#""outputs": {{ "canary": {{"value": {inside}, "type": "string"}},"#);
    let state = original
        .replacen(
            "\"resources\": [",
            &format!("\"resources\": [{}", more.concat()),
            1,
        )
        .replacen("\"outputs\": {", &output, 1);
    std::fs::write(&file, state).unwrap();
    file.to_str().unwrap().to_owned()
}

impl Worked {
    /// Imports files that are truncated or damaged, also in the middle of a secret.
    fn import_damaged_files(&self, file: &str, outside: &Path) {
        let broken = outside.join("broken.tfstate");
        let text = std::fs::read_to_string(file).unwrap();
        for (cut, wrong) in [
            (text.len() / 2, ""),
            (text.len() - 3, ",,"),
            (text.find("w4tch").unwrap(), "\u{1}"),
        ] {
            std::fs::write(&broken, format!("{}{wrong}", &text[..cut])).unwrap();
            self.checked(&["import", broken.to_str().unwrap()], &[1, 14, 16]);
        }
    }

    /// Tries to accept each pending operation, and resolves it as not done.
    fn resolve_pending_operations(&self) {
        let listed = self.checked(&["pending", "list", "--json"], &[0]);
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let pending = listed["data"].as_array().unwrap();
        let expected = "three operations with a refused result and one without a result must be pending";
        assert_eq!(pending.len(), 4, "{expected}");
        for operation in pending {
            let id = operation["id"].as_str().unwrap();
            self.checked(&["pending", "resolve", id, "--accept"], &[1, 4, 13, 14]);
            self.checked(&["pending", "resolve", id, "--not-done"], &[0]);
        }
    }

    /// Runs commands with an identity that isn't a recipient of the stack.
    fn read_with_foreign_identity(&self, outside: &Path) {
        let stranger = outside.join("stranger.txt");
        std::fs::write(&stranger, state_encrypt::generate_identity().file()).unwrap();
        std::fs::set_permissions(&stranger, Permissions::from_mode(0o600)).unwrap();
        let stranger = ["--identity", stranger.to_str().unwrap()];
        let shown = ["show", "terraform_data.database", "--show-secrets"];
        self.checked(&[&shown[..], &stranger].concat(), &[12]);
        self.checked(
            &[&["taint", "terraform_data.database"][..], &stranger].concat(),
            &[12],
        );
    }
}

#[test]
fn no_secret_reaches_store_logs_errors_or_debug_output() {
    let worked = Worked {
        sandbox: Sandbox::new(),
    };
    let outside = tempfile::tempdir().unwrap();
    let file = &fixture_with_canary(outside.path());
    worked.checked(&["import", file], &[0]);
    worked.run_reading_commands();

    let root = worked.sandbox.path().join(".state");
    let identity = worked.sandbox.path().join("anna/statectl/identity.txt");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let shown = runtime.unwrap().block_on(by_hand::work(&root, &identity));
    assert_eq!(
        found(shown.as_bytes()),
        None,
        "the debug output contains a secret: {shown}"
    );
    worked.run_reading_commands();

    worked.import_damaged_files(file, outside.path());
    worked.checked(&["taint", "terraform_data.database"], &[0]);
    worked.checked(&["mv", "terraform_data.database", "terraform_data.base"], &[0]);
    worked.checked(&["rollback", "1"], &[13]);
    worked.checked(&["show", "terraform_data.nothing"], &[10]);
    worked.resolve_pending_operations();
    worked.checked(&["rekey"], &[0]);
    worked.checked(&["import", file, "--force"], &[0]);
    // `by_hand` has added resources that Terraform can't load.
    worked.checked(&["undo"], &[4]);
    worked.checked(&["undo", "--force"], &[0]);
    worked.checked(&["rollback", "1"], &[0]);
    // The collection deletes logs and pages of the history.
    let before = search(worked.sandbox.path());
    let forget = ["gc", "--keep-days", "0", "--keep-revisions", "2", "--grace", "0s"];
    worked.checked(&forget, &[0]);
    worked.run_reading_commands();
    worked.read_with_foreign_identity(outside.path());

    let mut kinds = search(worked.sandbox.path());
    kinds.extend(before);
    let missed: Vec<_> = KINDS.iter().filter(|kind| !kinds.contains(**kind)).collect();
    assert!(missed.is_empty(), "not searched: {missed:?} of {kinds:#?}");
    // Verify the search itself: it must find an encoded secret.
    let proof = base64(format!("x{CANARY}").as_bytes());
    worked.sandbox.write("proof", format!("..{proof}.."));
    assert!(std::panic::catch_unwind(|| search(worked.sandbox.path())).is_err());
}

//! The store on which the program runs, and the folders of its clients. The program itself builds the store in honest
//! runs: two sealed stacks and a history with a removed recipient, a rotated key and published outputs. The attacker
//! has copies of all earlier stages.

use super::commands::{Command, EXPORTED};
use super::server::{Bucket, Server, image};
use crate::process::WORKER;
use crate::store::environment;
use bytes::Bytes;
use state_backend_object_store::object_store::memory::InMemory;
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::testkit::hostile::forgeries::{MARKER, catalogue};
use state_core::testkit::hostile::{CatalogueEntry, Intervention, Loot, Request, StoreImage};
use state_core::{Enveloped, Head, Json, KeyId, Lineage, Serial};
use state_encrypt::{AgeKeys, GeneratedIdentity, Identities, generate_identity};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The stack under attack.
pub(super) const STACK: &str = "tests/stack";

/// Another stack with the same recipients.
pub(super) const OTHER: &str = "tests/other-stack";

/// The recipient that the attacker adds to forged heads.
pub(super) const MALLORY: &str = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg";

/// More than the serials of all revisions of the stack.
const SERIALS: u64 = 16;

/// The name of the user who runs all commands, which the history records as the author of its revisions.
const USER: &str = "tester";

/// A value that must be sealed and masked.
pub(super) const CANARY: &str = "canary-of-a-sealed-value";

/// More than the resolution of the store's clock.
const STORE_CLOCK: Duration = Duration::from_millis(1_100);

/// The test fails if a process runs longer.
const LIMIT: Duration = Duration::from_secs(120);

/// The program whose resources `up` creates. Its outputs have the same values in all runs with the same `tag`.
const PROGRAM: &str = "
config:
  token: { type: string, secret: true }
  tag: { type: string }
resources:
  name: { kind: 'random:id', inputs: { keepers: '${config.token}' } }
  note:
    kind: command
    inputs:
      create: [echo, 'note ${config.tag}']
      update: [echo, 'note ${config.tag}']
outputs:
  note: '${note.stdout}'
  id: '${name.hex}'
";

/// The program of the other stack.
const OTHER_PROGRAM: &str = "
config:
  token: { type: string, secret: true }
  tag: { type: string }
resources:
  label: { kind: 'random:id', inputs: { keepers: '${config.token}' } }
";

/// The knowledge of a client before its command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// The memory of a client that read the last stage, and never had to rely on published outputs.
    Remembering,
    /// The name of the stack under attack, and the key of the outputs that it publishes: the memory of a client that
    /// has only read these outputs.
    ReadingOutputs,
    /// No memory, but the options `--expect-key` for both stacks.
    Expecting,
    /// No memory and no expectation, only the identity that opens the stacks.
    New,
}

impl Client {
    pub(super) const ALL: [Self; 4] = [
        Self::Remembering,
        Self::ReadingOutputs,
        Self::Expecting,
        Self::New,
    ];
}

/// A store, the folder of the client that uses it, and the forgeries of an attacker who knows its earlier stages.
pub(super) struct Scenario {
    pub(super) server: Server,
    /// The folder of the client that built the store: identity, memory and program.
    folder: TempDir,
    pub(super) lineage: Lineage,
    pub(super) other: Lineage,
    /// The store after each stage of its life, oldest first.
    pub(super) stages: Vec<InMemory>,
    pub(super) images: Vec<StoreImage>,
    /// The data keys of the last stages of both stacks.
    expected: Vec<KeyId>,
    /// The data keys of all stages that no attacker holds.
    pub(super) honest: BTreeMap<KeyId, Arc<dyn StackKey>>,
    pub(super) keys: Arc<AgeKeys>,
    /// The forgeries of the attacker.
    pub(super) catalogue: Arc<Vec<CatalogueEntry>>,
}

/// The result of a run of the program.
pub(super) struct Run {
    /// The exit code; `None` after a signal, also if the program exceeded its time limit.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) requests: Vec<Request>,
    /// The number of changes that the attacker made.
    pub(super) edits: usize,
    /// The store before the run.
    pub(super) before: StoreImage,
    /// The store after the run, and all requests of it.
    pub(super) bucket: Arc<Bucket>,
    /// The client's folder after the run.
    pub(super) folder: TempDir,
}

impl Scenario {
    pub(super) fn build() -> Self {
        let (own, former, reader) = (generate_identity(), generate_identity(), generate_identity());
        let folder = tempfile::tempdir().expect("a folder");
        let settings = folder.path().join("config/statectl");
        fs::create_dir_all(&settings).expect("a folder");
        write_private(&settings.join("identity.txt"), own.file());
        fs::write(folder.path().join("state.yaml"), PROGRAM).expect("the program is written");
        fs::write(folder.path().join("other.yaml"), OTHER_PROGRAM).expect("the program is written");
        fs::write(folder.path().join("token"), CANARY).expect("the token is written");
        let mut scenario = Self {
            server: Server::start(),
            folder,
            lineage: Lineage::from_bits([0; 16]),
            other: Lineage::from_bits([0; 16]),
            stages: Vec::new(),
            images: Vec::new(),
            expected: Vec::new(),
            honest: BTreeMap::new(),
            keys: Arc::new(keys(&own)),
            catalogue: Arc::default(),
        };
        let exported = scenario.live(&former, &reader);
        write_private(&scenario.folder.path().join(EXPORTED), &exported);
        // A collection takes the time from the store, which gives it in seconds. So for up to a second it keeps revisions
        // that it drops later, and two honest runs would differ.
        std::thread::sleep(STORE_CLOCK);
        scenario.learn(&own, &former);
        scenario
    }

    /// Makes the stages of the store by honest runs of the program. Returns an export of the last stage.
    fn live(&mut self, former: &GeneratedIdentity, reader: &GeneratedIdentity) -> String {
        let bucket = self.server.open(InMemory::new());
        let on = |stack: &str, arguments: &[&str]| {
            let arguments = [&["--stack", stack], arguments].concat();
            let (code, stdout, stderr) = self.execute(self.folder.path(), &bucket.key, &arguments);
            assert_eq!(code, Some(0), "{arguments:?}: {stdout}{stderr}");
            stdout
        };
        let up = |stack: &str, tag: &str| {
            let tag = format!("tag={tag}");
            let program = if stack == OTHER {
                "other.yaml"
            } else {
                "state.yaml"
            };
            let arguments = ["up", program, "--config", "token=@token", "--config", &tag];
            drop(on(stack, &arguments));
        };
        let mut stages = Vec::new();
        up(STACK, "0");
        up(OTHER, "other");
        stages.push(bucket.store.fork());
        on(STACK, &["recipients", "add", former.recipient()]);
        up(STACK, "1");
        stages.push(bucket.store.fork());
        on(STACK, &["recipients", "remove", former.recipient()]);
        on(STACK, &["recipients", "add", "--outputs", reader.recipient()]);
        up(STACK, "2");
        stages.push(bucket.store.fork());
        up(STACK, "3");
        // The client sees both stacks before the attack begins.
        on(STACK, &["stack", "ls"]);
        on(STACK, &["outputs"]);
        stages.push(bucket.store.fork());
        let exported: serde_json::Value =
            serde_json::from_str(&on(STACK, Command::Export.arguments())).expect("a JSON document");
        let exported = exported["data"]["document"].as_str().expect("the state");
        let exported = exported.to_owned();
        self.server.close(&bucket);
        self.images = stages.iter().map(image).collect();
        self.stages = stages;
        exported
    }

    /// Reads lineages and keys of the finished store, and collects the forgeries of an attacker who was the recipient
    /// `former`.
    fn learn(&mut self, own: &GeneratedIdentity, former: &GeneratedIdentity) {
        let heads: Vec<(Lineage, Head)> = self.last().iter().filter_map(head_of).collect();
        // Only the stack under attack publishes outputs to a recipient.
        let is_attacked = |head: &Head| head.keys.as_ref().is_some_and(|keys| !keys.outputs.is_empty());
        for (lineage, head) in &heads {
            self.expected.extend(head.key_id);
            match is_attacked(head) {
                true => self.lineage = *lineage,
                false => self.other = *lineage,
            }
        }
        let mut keys_held = BTreeMap::new();
        let mut held = None;
        for (stage, image) in self.images.iter().enumerate() {
            for lineage in [self.lineage, self.other] {
                let id = image.head(lineage).and_then(|head| head.key_id);
                let id = id.expect("every stack is sealed");
                let files = key_files(image, lineage, id);
                let key = self.keys.unwrap(lineage, id, &files).expect("an own key");
                keys_held.insert(id, key);
                if stage == 1 && lineage == self.lineage {
                    let key = keys(former).unwrap(lineage, id, &files);
                    held = Some(key.expect("the key of the former recipient"));
                }
            }
        }
        let held = held.expect("a second stage");
        keys_held.remove(&held.id());
        self.honest = keys_held;
        let foreign = keys(&generate_identity());
        let key = foreign.generate(self.lineage).expect("a key");
        let recipients = [own.recipient().to_owned()];
        let wrapped = foreign.wrap(key.id(), Some(&recipients)).expect("a recipient");
        let outputs = forged_outputs(&*key, &recipients);
        let loot = Loot {
            lineage: self.lineage,
            author: USER.to_owned(),
            recipient: MALLORY.to_owned(),
            other: Some(self.other),
            other_name: Some(OTHER.parse().expect("a valid name")),
            earlier: self.images[..self.images.len() - 1].to_vec(),
            former: Some(held),
            wrapped: wrapped.files.into_iter().next().map(Bytes::from),
            outputs,
        };
        self.catalogue = Arc::new(catalogue(&Arc::new(loot)));
    }

    /// The last stage, on which the commands run under attack.
    pub(super) fn last(&self) -> &StoreImage {
        &self.images[self.images.len() - 1]
    }

    /// The path of the head of the stack under attack.
    pub(super) fn head(&self) -> String {
        format!("stacks/{}/head.json", self.lineage)
    }

    /// The path of the head of the other stack.
    pub(super) fn other_head(&self) -> String {
        format!("stacks/{}/head.json", self.other)
    }

    /// The folder with the memory of the client that built the store.
    pub(super) fn memory(&self) -> PathBuf {
        self.folder.path().join("memory")
    }

    /// A copy of the builder's folder, with the memory of a client.
    pub(super) fn client(&self, client: Client) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        copy(self.folder.path(), folder.path());
        let memory = folder.path().join("memory");
        match client {
            Client::Remembering => {}
            Client::ReadingOutputs => self.keep_outputs(&memory),
            Client::Expecting | Client::New => fs::remove_dir_all(memory).expect("the builder's memory"),
        }
        folder
    }

    /// The file in which a memory has the pin of a stack.
    fn pin(&self, memory: &Path, lineage: Lineage) -> PathBuf {
        known_store(memory).join("stacks").join(format!("{lineage}.json"))
    }

    /// Reduces the builder's memory to the name of the stack under attack and its published outputs.
    fn keep_outputs(&self, memory: &Path) {
        fs::remove_file(self.pin(memory, self.other)).expect("a pin");
        fs::remove_file(known_store(memory).join("names").join(OTHER)).expect("a name");
        let file = self.pin(memory, self.lineage);
        let pin = fs::read_to_string(&file).expect("a pin");
        let pin: serde_json::Value = serde_json::from_str(&pin).expect("a pin");
        let head = self.last().head(self.lineage).expect("a head");
        let key = &self.honest[&head.key_id.expect("a sealed stack")];
        let key = key.outputs_id().expect("a key of the outputs").to_string();
        let reduced = serde_json::json!({ "outputs": { "key": key, "serial": pin["serial"] } });
        fs::write(file, reduced.to_string()).expect("a pin");
    }

    /// Runs a command on a copy of a stage, while the attacker makes the changes of the plan.
    pub(super) fn run(&self, stage: usize, command: Command, client: Client, plan: Vec<Intervention>) -> Run {
        let folder = self.client(client);
        let mut arguments = command.arguments().to_vec();
        let url = self.server.url();
        if command == Command::Copy {
            arguments.extend([url.as_str(), "copied"]);
        }
        if !command.is_about_the_store() {
            arguments.extend(["--stack", STACK]);
        }
        let expected: Vec<String> = self.expected.iter().map(KeyId::to_string).collect();
        if client == Client::Expecting {
            arguments.extend(expected.iter().flat_map(|key| ["--expect-key", key]));
        }
        let bucket = self.server.open(self.stages[stage].fork());
        bucket.attacker.plan(plan);
        let (code, stdout, stderr) = self.execute(folder.path(), &bucket.key, &arguments);
        self.server.close(&bucket);
        Run {
            code,
            stdout,
            stderr,
            requests: bucket.attacker.requests(),
            edits: bucket.attacker.edits_made(),
            before: self.images[stage].clone(),
            bucket,
            folder,
        }
    }

    /// Runs the program in a client's folder, on the store with this access key. Returns the exit code, stdout and
    /// stderr.
    pub(super) fn execute(
        &self,
        folder: &Path,
        key: &str,
        arguments: &[&str],
    ) -> (Option<i32>, String, String) {
        let output = |name: &str| fs::File::create(folder.join(name)).expect("a file");
        let mut command = std::process::Command::new(WORKER);
        command
            .args(["cli", "--json", "--yes", "--backend", &self.server.url()])
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("USER", USER)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_STATE_HOME", folder.join("memory"))
            .env("STATECTL_POLICY", "all")
            .env("AWS_ACCESS_KEY_ID", key)
            .env("AWS_SECRET_ACCESS_KEY", "unchecked")
            .env("AWS_REGION", "here")
            .env("AWS_DISABLE_BULK_DELETE", "true")
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"));
        let mut child = command.spawn().expect("the worker starts");
        let clock = environment().clock;
        let code = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status.code();
            }
            if clock.elapsed() > LIMIT {
                child.kill().expect("a child can be killed");
                child.wait().expect("a child can be waited for");
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = |name: &str| fs::read_to_string(folder.join(name)).expect("the worker writes text");
        (code, text("stdout"), text("stderr"))
    }
}

/// The folder of the only store that a memory knows.
fn known_store(memory: &Path) -> PathBuf {
    let mut stores = fs::read_dir(memory.join("statectl/seen")).expect("the builder's memory");
    stores.next().expect("a known store").expect("a folder").path()
}

/// Published outputs that an attacker sealed with their own key and wrapped to these recipients, for the first serials of
/// the stack under attack.
fn forged_outputs(key: &dyn StackKey, recipients: &[String]) -> Vec<(Serial, Bytes)> {
    let mut outputs = StackOutputs::default();
    let note = Json::parse(&format!("\"{MARKER}\"")).expect("a JSON string");
    outputs.values.insert("note".to_owned(), note);
    let stack = STACK.parse().expect("a valid name");
    let document = |serial| {
        let policy = SealingPolicy::All;
        let document = key.outputs_document(policy, &stack, Serial(serial), &outputs, recipients);
        (Serial(serial), document.expect("valid outputs").into())
    };
    (1..=SERIALS).map(document).collect()
}

/// The lineage and content of a stack's head, if the object is one.
fn head_of((object, bytes): (&str, &Bytes)) -> Option<(Lineage, Head)> {
    let stack = object.strip_prefix("stacks/")?.strip_suffix("/head.json")?;
    Some((stack.parse().ok()?, Head::decode(object, bytes).ok()?))
}

/// The key files of a data key, each of which wraps the key to some of the recipients.
pub(super) fn key_files(image: &StoreImage, lineage: Lineage, id: KeyId) -> Vec<Vec<u8>> {
    let folder = format!("stacks/{lineage}/keys/");
    let files = image.below(&folder);
    let files = files.filter(|(file, _)| file.contains(&id.to_string()));
    files.map(|(_, bytes)| bytes.to_vec()).collect()
}

/// A key provider with one identity.
fn keys(identity: &GeneratedIdentity) -> AgeKeys {
    let recipients = identity.recipient().parse().expect("a valid recipient");
    let identities = Identities::parse("identity", identity.file()).expect("a valid identity");
    AgeKeys::new(identities, recipients, environment().entropy)
}

/// Writes a file that only the user can read, as the program requires for identities.
pub(super) fn write_private(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, content).expect("the file is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("an own file");
}

/// Copies the content of a folder. The permissions of files are kept.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a file")),
        }
    }
}

/// Drops the number that the worker prints on stderr, which differs between runs.
pub(super) fn without_peak(stderr: &str) -> String {
    let lines = stderr.lines().filter(|line| !line.starts_with("VmHWM"));
    lines.collect::<Vec<_>>().join("\n")
}

//! Judges a run of the program under attack: nothing forged may be signed, acknowledged, shown as authentic, or
//! remembered. The judge compares the run with honest runs of the same command, from each stage of the store.

use super::answers::{
    Resources, Shown, documents, is_between, is_foreign, is_missing_log, logged_updates, with_sealed_message,
};
use super::commands::{COLLEAGUE, Command};
use super::evidence::{Written, contains, revision, served_heads, shows_plain_first};
use super::exits::{check_exit, warns};
use super::memory;
use super::next_reader::next_reader;
use super::scenario::{CANARY, Client, Run, Scenario};
use super::server::image;
use state_core::head::SealingPolicy;
use state_core::journal::FrameKind;
use state_core::testkit::hostile::Request;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Frame, Head, KeyId, RevisionId};
use state_manager::Authenticity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first stage with the data keys that [`Client::Expecting`] expects, and with the outputs that
/// [`Client::ReadingOutputs`] has read.
const FIRST_EXPECTED: usize = 2;

/// The true content of the honest stages, and the answers of honest runs.
pub(super) struct Judge {
    /// All revisions of the honest stages.
    pub(super) revisions: BTreeSet<RevisionId>,
    /// The chain digests of all frames of the honest stages.
    pub(super) chains: BTreeSet<Digest>,
    /// The heads of the honest stages, oldest first.
    heads: Vec<Head>,
    /// The data keys that the heads of both stacks name in the honest stages.
    keys: BTreeSet<Option<KeyId>>,
    learned: Mutex<BTreeMap<Command, Arc<Learned>>>,
    requests: Mutex<HonestRequests>,
    /// Number of runs whose answer isn't compared with honest answers, because the attacker did what a client without
    /// memory can't notice, or because the client reported that it checked nothing.
    pub(super) unprotected: AtomicUsize,
}

/// The requests of an honest run on the last stage, by command and client.
type HonestRequests = BTreeMap<(Command, Client), Arc<Vec<Request>>>;

/// The answers of honest runs of one command.
#[derive(Default)]
struct Learned {
    /// The documents on stdout, by stage; none where the command fails.
    documents: Vec<Option<Vec<String>>>,
    /// The states before and after the command.
    resources: BTreeSet<Resources>,
    /// Policy and recipients before and after the command.
    sealing: BTreeSet<String>,
    /// The state, and policy and recipients, after the command on the last stage.
    after: (Resources, String),
}

impl Judge {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut judge = Self {
            revisions: BTreeSet::new(),
            chains: BTreeSet::new(),
            heads: Vec::new(),
            keys: BTreeSet::new(),
            learned: Mutex::default(),
            requests: Mutex::default(),
            unprotected: AtomicUsize::new(0),
        };
        for image in &scenario.images {
            judge.heads.extend(image.head(scenario.lineage));
            for lineage in [scenario.lineage, scenario.other] {
                judge.keys.extend(image.head(lineage).map(|head| head.key_id));
                for (_, frame) in image.frames(lineage) {
                    judge.chains.insert(*frame.chain());
                    judge.revisions.extend(revision(frame.payload(), frame.chain()));
                }
            }
        }
        judge
    }

    /// The requests of an honest run of a command on the last stage. The run is judged too.
    pub(super) fn requests(
        &self,
        scenario: &Scenario,
        command: Command,
        client: Client,
    ) -> Arc<Vec<Request>> {
        if let Some(requests) = lock(&self.requests).get(&(command, client)) {
            return Arc::clone(requests);
        }
        let run = scenario.run(scenario.stages.len() - 1, command, client, Vec::new());
        let context = format!(
            "an honest run of {command:?}, {client:?}: {}{}",
            run.stdout, run.stderr
        );
        assert_eq!(run.code, Some(0), "{context}");
        assert_eq!(self.judge(scenario, command, client, &run), [""; 0], "{context}");
        let requests = Arc::new(run.requests);
        lock(&self.requests).insert((command, client), Arc::clone(&requests));
        requests
    }

    /// The answers of honest runs of a command.
    fn learned(&self, scenario: &Scenario, command: Command) -> Arc<Learned> {
        if let Some(learned) = lock(&self.learned).get(&command) {
            return Arc::clone(learned);
        }
        let mut learned = Learned::default();
        for stage in 0..scenario.stages.len() {
            let run = scenario.run(stage, command, Client::New, Vec::new());
            let is_answer = run.code == Some(0);
            let answer = is_answer.then(|| documents(&run.stdout, &self.revisions));
            learned.documents.push(answer);
            let stores = [&scenario.stages[stage], &*run.bucket.store];
            for store in stores {
                let shown = next_reader(scenario, Arc::new(store.fork()), None);
                let Some(shown) = shown.expect("an honest store is readable") else {
                    assert_eq!(command, Command::Remove, "the stack is missing");
                    learned.after = Default::default();
                    continue;
                };
                learned.resources.insert(shown.resources.clone());
                learned.sealing.insert(shown.sealing.clone());
                learned.after = (shown.resources, shown.sealing);
            }
        }
        let learned = Arc::new(learned);
        lock(&self.learned).insert(command, Arc::clone(&learned));
        learned
    }

    /// Returns descriptions of the rules that a run broke.
    pub(super) fn judge(
        &self,
        scenario: &Scenario,
        command: Command,
        client: Client,
        run: &Run,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        check_exit(command, run, &mut broken);
        let written = Written::of(scenario, run);
        let remembering = client;
        let client = match client {
            // A reader of outputs meets the other stack for the first time.
            Client::ReadingOutputs if command == Command::Move => Client::New,
            // `stack ls` lists other stacks beside the known one, and `doctor` judges the store.
            Client::Expecting | Client::ReadingOutputs if command.is_about_the_store() => Client::New,
            client => client,
        };
        if client == Client::New && self.is_beyond_protection(scenario, command, run, &written) {
            self.unprotected.fetch_add(1, Ordering::Relaxed);
            return broken;
        }
        let learned = self.learned(scenario, command);
        if run.code == Some(0) {
            self.check_answer(command, client, &learned, run, &mut broken);
        }
        if !command.is_read_only() {
            self.check_journal(scenario, client, run, &written, &mut broken);
            self.check_heads(scenario, command, client, run, &written, &mut broken);
            self.check_left(scenario, client, run, &learned, &written, &mut broken);
        }
        for (object, bytes) in &written.objects {
            if contains(bytes, CANARY) {
                broken.push(format!("a sealed value is written in clear to {object}"));
            }
        }
        memory::check(self, scenario, (command, remembering), run, &written, &mut broken);
        broken
    }

    /// Whether the attacker showed a client without memory a store that it can't distinguish from an honest one:
    /// `docs/threat-model.md` lists these limits.
    fn is_beyond_protection(
        &self,
        scenario: &Scenario,
        command: Command,
        run: &Run,
        written: &Written,
    ) -> bool {
        let path = scenario.head();
        let contents = run.bucket.served();
        let served = served_heads(&contents, &path);
        // A stack that was never sealed.
        let is_plain = shows_plain_first(scenario, &contents, &path)
            || (command.reads_other() && shows_plain_first(scenario, &contents, &scenario.other_head()));
        // A stack of a time when the attacker held the data key.
        let honest = |id| written.keys.contains_key(&id);
        let is_former = served
            .iter()
            .any(|head| head.key_id.is_some_and(|id| !honest(id)));
        // No stack under the name, so that the client made a new one.
        let is_created = written
            .objects
            .iter()
            .any(|(object, _)| object.ends_with("/head.json") && scenario.last().get(object).is_none());
        // A stack without a key, which the client then sealed.
        let written_heads = [path, scenario.other_head()].map(|path| written.heads(&path));
        let is_sealed_anew = written_heads.into_iter().flatten().any(|head| {
            let is_known = self.keys.contains(&head.key_id);
            !is_known && head.keys.is_some_and(|keys| keys.succession.is_empty())
        });
        is_plain || is_former || is_created || is_sealed_anew
    }

    /// Checks that the answer of the program is one that an honest run gives.
    fn check_answer(
        &self,
        command: Command,
        client: Client,
        learned: &Learned,
        run: &Run,
        broken: &mut Vec<String>,
    ) {
        // With damaged key files, a reader that never opened the data key shows the stack, but not as authentic.
        let never_opened = matches!(client, Client::New | Client::ReadingOutputs);
        if never_opened && command.is_read_only() && warns(run, "authenticity not checked") {
            self.unprotected.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if is_foreign(&run.stdout) {
            broken.push(format!("foreign content on stdout: {}", run.stdout));
        }
        // The warning makes this answer one about an earlier state.
        let is_regressed = warns(run, "the store was rolled back");
        let last = learned.documents.len() - 1;
        let first = match client {
            Client::Remembering if is_regressed => 0,
            Client::Remembering => last,
            Client::Expecting | Client::ReadingOutputs => FIRST_EXPECTED,
            Client::New => 0,
        };
        let answer = documents(&run.stdout, &self.revisions);
        let mut allowed = learned.documents[first..].iter().flatten();
        let is_allowed = match command {
            Command::ListStacks => {
                let all: Vec<_> = allowed.flatten().collect();
                let is_complete = client != Client::Remembering || answer.len() == 2;
                is_complete && answer.iter().all(|stack| all.contains(&stack))
            }
            Command::Logs => {
                let all: Vec<_> = allowed.flatten().collect();
                // The logs of all updates of a stage: of the last one, or of an earlier one with the warning.
                let mut stages = learned.documents[first..].iter().flatten();
                let is_complete = client != Client::Remembering
                    || stages.any(|stage| logged_updates(&answer) == logged_updates(stage));
                // With damaged files of an earlier key, its messages stay sealed, and a warning says so.
                let sealed: BTreeSet<_> = if warns(run, "log messages are printed as `(sealed)`") {
                    all.iter().filter_map(|line| with_sealed_message(line)).collect()
                } else {
                    BTreeSet::new()
                };
                let is_honest =
                    |line: &String| all.contains(&line) || sealed.contains(line) || is_missing_log(line);
                is_complete && answer.iter().all(is_honest)
            }
            _ => allowed.any(|allowed| *allowed == answer),
        };
        if !is_allowed {
            let last = learned.documents.last();
            broken.push(format!(
                "no honest run answers {answer:?}; on the last stage it answers {last:?}"
            ));
        }
    }

    /// Checks that the program signed no frame that repeats forged content or follows a forged frame.
    fn check_journal(
        &self,
        scenario: &Scenario,
        client: Client,
        run: &Run,
        written: &Written,
        broken: &mut Vec<String>,
    ) {
        let stored = image(&run.bucket.store);
        for lineage in [scenario.lineage, scenario.other] {
            self.check_frames(&stored.frames(lineage), client, written, broken);
        }
    }

    fn check_frames(
        &self,
        frames: &[(Digest, Frame)],
        client: Client,
        written: &Written,
        broken: &mut Vec<String>,
    ) {
        let mut forged: Option<&Frame> = None;
        let mut end = None;
        for (before, frame) in frames {
            // Where the chain breaks, earlier frames lie before the base: the client trusts the base by the digest in
            // the head and doesn't read them, so a forged frame there doesn't count.
            if end.replace(*frame.chain()) != Some(*before) {
                forged = None;
            }
            let key = frame.key_id().and_then(|id| written.keys.get(&id));
            let is_signed = key.is_some_and(|key| frame.is_authentic(&**key));
            let is_old = self.chains.contains(frame.chain());
            if is_signed && !is_old {
                if contains(frame.payload(), MARKER) {
                    broken.push(format!("forged content is signed in frame {}", frame.slot()));
                }
                if let Some(forged) = forged {
                    let (slot, of) = (frame.slot(), forged.slot());
                    broken.push(format!("frame {slot} signs the forged frame {of}"));
                }
            }
            let is_own = client != Client::Remembering && written.starts.contains(frame.chain());
            if !is_signed && !is_old && !is_own && frame.kind() == FrameKind::Data {
                forged.get_or_insert(frame);
            }
        }
    }

    /// Checks that the program signed no head that has a forged part.
    fn check_heads(
        &self,
        scenario: &Scenario,
        command: Command,
        client: Client,
        run: &Run,
        written: &Written,
        broken: &mut Vec<String>,
    ) {
        let path = scenario.head();
        let first = match client {
            Client::Remembering => self.heads.len() - 1,
            Client::Expecting | Client::ReadingOutputs => FIRST_EXPECTED,
            Client::New => 0,
        };
        let known = &self.heads[first..];
        let objects = run.bucket.attacker.objects();
        let exists = |short: &str| objects.iter().any(|object| object.contains(short));
        for head in written.heads(&path) {
            let key = head.key_id.and_then(|id| written.keys.get(&id));
            if key.is_none_or(|key| head.authenticate(&path, &**key).is_err()) {
                continue;
            }
            let mut require = |holds: bool, part: &str| {
                if !holds {
                    broken.push(format!("a head with a forged part is signed: {part}"));
                }
            };
            require(!is_foreign(&format!("{head:?}")), "foreign content");
            let is_asked_for = command == Command::Encrypt && head.policy == SealingPolicy::Sensitive;
            require(head.policy == SealingPolicy::All || is_asked_for, "policy");
            require(head.lineage == scenario.lineage, "lineage");
            require(head.client_lock.is_none(), "client lock");
            require(run.code != Some(0) || head.epoch.get() < 1 << 33, "epoch");
            let mut of_known = known.iter().filter_map(|head| head.keys.as_ref());
            if let Some(keys) = &head.keys {
                let is_recipient = |one: &String| {
                    let mut known = known.iter().filter_map(|head| head.keys.as_ref());
                    one == COLLEAGUE
                        || known.any(|keys| keys.recipients.contains(one) || keys.outputs.contains(one))
                };
                let mut all = keys.recipients.iter().chain(&keys.outputs);
                require(all.all(is_recipient), "recipients");
                let links: Vec<_> = of_known.clone().flat_map(|keys| &keys.succession).collect();
                let is_honest = |link| links.contains(&link) || written.keys.contains_key(&link.new);
                require(keys.succession.iter().all(is_honest), "succession of keys");
                require(
                    of_known.any(|known| known.since == keys.since),
                    "begin of sealing",
                );
            }
            let mut snapshots = head.bases().flat_map(|(_, base)| base.snapshots());
            require(snapshots.all(|snapshot| exists(&snapshot.digest.short())), "base");
            let mut pages = head.history.pages.iter();
            require(pages.all(|page| exists(&page.digest.short())), "history");
        }
    }

    /// Checks the state that the next readers are shown, one with the memory of the client after the run and one
    /// without: it must be the state before the command, after it, or between two steps of an honest run.
    fn check_left(
        &self,
        scenario: &Scenario,
        client: Client,
        run: &Run,
        learned: &Learned,
        written: &Written,
        broken: &mut Vec<String>,
    ) {
        for memory in [Some(run), None] {
            if memory.is_some() && client != Client::Remembering {
                continue;
            }
            let Ok(Some(shown)) = next_reader(scenario, Arc::new(run.bucket.store.fork()), memory) else {
                continue;
            };
            let is_honest = shown.key.is_some_and(|key| written.keys.contains_key(&key));
            if shown.is_regressed
                || shown.authenticity != Authenticity::Checked
                || (memory.is_none() && !is_honest)
            {
                continue;
            }
            let mut found = Vec::new();
            self.check_shown(&shown, learned, written, &mut found);
            let is_acknowledged = memory.is_some() && run.code == Some(0);
            if is_acknowledged && (&shown.resources, &shown.sealing) != (&learned.after.0, &learned.after.1) {
                found.push(format!(
                    "an acknowledged change is missing: {:?}",
                    shown.resources
                ));
            }
            let reader = format!("the next reader (memory: {})", memory.is_some());
            broken.extend(found.into_iter().map(|rule| format!("{reader}: {rule}")));
        }
    }

    /// Checks that a state that is shown as authentic has no forged head, lock, history or content.
    fn check_shown(&self, shown: &Shown, learned: &Learned, written: &Written, broken: &mut Vec<String>) {
        if shown.is_foreign {
            broken.push("foreign content".to_owned());
        }
        if !learned.sealing.contains(&shown.sealing) {
            broken.push(shown.sealing.clone());
        }
        if shown.is_locked {
            broken.push("a client lock".to_owned());
        }
        let is_known = |id: &&RevisionId| !self.revisions.contains(id) && !written.revisions.contains(id);
        for revision in shown.revisions.iter().filter(is_known) {
            broken.push(format!("revision {revision}"));
        }
        if !is_between(&shown.resources, &learned.resources) {
            broken.push(format!("{:?}", shown.resources));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The store that the commands run on. It has two sealed stacks and a history: a removed recipient, a rotated key,
//! published outputs, a crashed writer. The attacker has copies of all earlier stages.

use crate::client::Answer;
use crate::commands::Command;
use crate::disk::{Disk, Kind};
use crate::imports;
use crate::keys::CachedKeys;
use crate::moves;
use crate::updates::{publish, update};
use bytes::Bytes;
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::testkit::hostile::forgeries::{MARKER, catalogue};
use state_core::testkit::hostile::{Action, Attacker, CatalogueEntry, Intervention, Loot, Request, Rewrite};
use state_core::{
    Backend, Entry, Error, Json, KeyId, Lineage, Properties, Result, Serial, StackName, UpdateKind,
};
use state_encrypt::{AgeKeys, GeneratedIdentity, Identities, generate_identity};
use state_manager::{
    Actor, Environment, Intent, KnownStacks, MemoryKnownStacks, Rekey, SpooledResult, Stack, StackPin,
    Stacks, UpdateRequest,
};
use std::sync::Arc;

/// Another stack with the same recipients.
pub(crate) const OTHER: &str = "tests/other-stack";

/// The recipient that the attacker adds to forged heads.
pub(crate) const MALLORY: &str = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg";

/// A recipient that commands add.
pub(crate) const COLLEAGUE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// The name of the user who runs all commands.
pub(crate) const USER: &str = "tester";

/// Text that only sealed values contain.
pub(crate) const CANARY: &str = "canary-of-a-sealed-value";

/// More than the serials of all revisions in these tests.
const SERIALS: u64 = 12;

/// The stack under attack.
pub(crate) fn name() -> StackName {
    "tests/stack".parse().expect("a good name")
}

pub(crate) fn environment() -> Environment {
    Environment::system(Actor {
        who: USER.to_owned(),
        host: "here".to_owned(),
        pid: 1,
    })
}

/// The entry that a command creates, with a value that must be sealed.
pub(crate) fn entry(tag: &str) -> Result<Entry> {
    let outputs = format!(r#"{{"tag":"{tag}","value":"{CANARY}-{tag}"}}"#);
    Ok(Entry {
        id: Some(tag.to_owned()),
        outputs: Json::parse(&outputs).ok().and_then(Properties::new),
        ..Entry::leaf(tag.parse()?, "thing")
    })
}

/// A store, the keys and pins of the client that uses it, and the forgeries of an attacker who knows its earlier
/// stages.
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) lineage: Lineage,
    /// The stack `OTHER`, which has the same recipients.
    pub(crate) other: Lineage,
    /// The store after each stage of its life, oldest first.
    pub(crate) stages: Vec<Disk>,
    /// The store within updates between the stages: one was begun, and its writer crashed and lost the lock. A client
    /// without memory can be shown these moments by the head of the stage before and a journal that is cut off.
    pub(crate) moments: Vec<Disk>,
    /// The last stage, with an update in which a writer crashed.
    pub(crate) crashed: Disk,
    /// The result of the pending operation of that writer, which the writer couldn't record.
    pub(crate) spooled: Option<SpooledResult>,
    pub(crate) keys: Arc<CachedKeys>,
    /// The store after a writer crashed in a move of a resource to the other stack, before and after its commit point.
    pub(crate) moves: Vec<Moment>,
    /// The last stage, after imports because of which the base takes its content from the snapshot of the last one.
    pub(crate) imports: Moment,
    /// The pins of a client that read the last stage.
    pub(crate) pins: Pins,
    /// The forgeries of the attacker.
    pub(crate) catalogue: Arc<Vec<CatalogueEntry>>,
    /// The recipient of the client under attack.
    pub(crate) recipient: String,
}

/// What a client remembers of the stacks.
pub(crate) type Pins = Vec<(StackName, Lineage, StackPin)>;

/// A store, and the pins of a client that read it.
pub(crate) struct Moment {
    pub(crate) disk: Disk,
    pub(crate) pins: Pins,
}

impl Moment {
    /// An empty store, and no pins.
    pub(crate) fn empty(kind: Kind) -> Self {
        let (disk, pins) = (Disk::new(kind), Pins::new());
        Self { disk, pins }
    }
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) answer: Result<Answer>,
    pub(crate) requests: Vec<Request>,
    /// The number of changes that the attacker made.
    pub(crate) edits: usize,
    /// The index of the request before which the first forgery was planned; none for an honest run.
    pub(crate) first_edit: Option<usize>,
    /// The attacker, which has all versions of all objects of the run.
    pub(crate) attacker: Attacker,
    /// The store after the run.
    pub(crate) disk: Disk,
    /// The client's pins after the run; none for a client without memory.
    pub(crate) memory: Option<Arc<MemoryKnownStacks>>,
}

impl Scenario {
    pub(crate) async fn build(kind: Kind) -> Result<Self> {
        let (own, former, reader) = (generate_identity(), generate_identity(), generate_identity());
        let mut scenario = Self {
            kind,
            lineage: Lineage::from_bits([0; 16]),
            other: Lineage::from_bits([0; 16]),
            spooled: None,
            stages: Vec::new(),
            moments: Vec::new(),
            crashed: Disk::new(kind),
            moves: Vec::new(),
            imports: Moment::empty(kind),
            keys: Arc::new(keys(&[&own, &reader])),
            pins: Vec::new(),
            catalogue: Arc::default(),
            recipient: own.recipient().to_owned(),
        };
        let disk = Disk::new(kind);
        let stacks = scenario.stacks(disk.under(&Attacker::default()).await?, 1);
        let stack = stacks.new_stack_with(&name(), SealingPolicy::All).await?;
        scenario.lineage = stack.lineage();
        let other = stacks.new_stack_with(&OTHER.parse()?, SealingPolicy::All).await?;
        scenario.other = other.lineage();
        for stack in [&stack, &other] {
            let session = stack.lock("build").await?;
            update(&session, "built-0").await?;
            session.close().await?;
        }
        // The other stack has objects of each kind, which the attacker copies.
        other.rekey("rekey", Rekey::default()).await?;
        publish_to(&other, &reader).await?;
        scenario.stages.push(disk.copy());
        stack
            .add_recipients("recipients add", &[former.recipient().to_owned()])
            .await?;
        scenario.moments.push(scenario.within(&disk, "built-1").await?);
        let session = stack.lock("build").await?;
        update(&session, "built-1").await?;
        session.close().await?;
        scenario.stages.push(disk.copy());
        let request = Rekey {
            recipients: Some(vec![own.recipient().to_owned()]),
            ..Rekey::default()
        };
        stack.rekey("recipients rm", request).await?;
        publish_to(&stack, &reader).await?;
        scenario.stages.push(disk.copy());
        scenario.moments.push(scenario.within(&disk, "built-2").await?);
        let session = stack.lock("build").await?;
        update(&session, "built-2").await?;
        session.close().await?;
        scenario.stages.push(disk.copy());
        scenario.pins = scenario.remembered(&disk).await?;
        scenario.moves = scenario.interrupted_moves().await?;
        scenario.imports = imports::made(&scenario).await?;
        scenario.crashed = disk.copy();
        scenario.spooled = Some(scenario.crash(&scenario.crashed, "crashed").await?);
        scenario.catalogue = scenario.catalogue_of(&former).await?;
        Ok(scenario)
    }

    /// The store within a move that isn't committed, and within one that is.
    async fn interrupted_moves(&self) -> Result<Vec<Moment>> {
        let mut moves = Vec::new();
        for is_committed in [false, true] {
            let disk = moves::interrupted(self, is_committed).await?;
            let pins = self.remembered(&disk).await?;
            moves.push(Moment { disk, pins });
        }
        Ok(moves)
    }

    /// A copy of the store within the update that creates the resource `tag`, without the lock of its writer.
    async fn within(&self, disk: &Disk, tag: &str) -> Result<Disk> {
        let moment = disk.copy();
        self.crash(&moment, tag).await?;
        let stacks = self.stacks(moment.under(&Attacker::default()).await?, 4);
        let stack = stacks.get(&name()).await?;
        let stack = stack.ok_or_else(|| Error::not_found("the stack"))?;
        let epoch = stack.lock_status().await?.epoch;
        stack.break_lock("build", epoch).await?.close().await?;
        Ok(moment)
    }

    /// Makes a writer crash: its update, which creates the resource `tag`, stays open with a pending operation. The
    /// store becomes unavailable before the writer can record the result of the operation. Returns this result, which
    /// the writer spools.
    async fn crash(&self, disk: &Disk, tag: &str) -> Result<SpooledResult> {
        let folder = tempfile::tempdir().map_err(|error| Error::invalid("a folder", error.to_string()))?;
        let backend = FaultyBackend::new(disk.under(&Attacker::default()).await?);
        let faults = backend.plan();
        let stacks = self.stacks(Arc::new(backend), 3).with_spool(folder.path());
        let stack = stacks.get(&name()).await?;
        let session = stack.ok_or_else(|| Error::not_found("the stack"))?;
        let session = session.lock("build").await?;
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Update))
            .await?;
        let step = update.begin(Intent::create(entry(tag)?)).await?;
        faults.fail(Operation::Append, 0, Fault::BeforeEffect);
        let Err(_) = step.succeed(Some(entry(tag)?)).await else {
            return Err(Error::invalid("the append", "it didn't fail"));
        };
        let mut files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let file = files.next().ok_or_else(|| Error::not_found("a spooled result"))?;
        SpooledResult::read(&file.path())
    }

    /// Returns the pins of a client that reads both stacks of a store.
    pub(crate) async fn remembered(&self, disk: &Disk) -> Result<Pins> {
        let memory: Arc<MemoryKnownStacks> = Arc::default();
        let backend = disk.under(&Attacker::default()).await?;
        let stacks = self.stacks(backend, 2).with_known_stacks(memory.clone());
        stacks.list().await?;
        for name in [name(), OTHER.parse()?] {
            let stack = stacks.get(&name).await?;
            stack.ok_or_else(|| Error::not_found("the stack"))?.tip().await?;
        }
        stacks.published_outputs(&name()).await?;
        let mut pins = Vec::new();
        for (name, lineage) in [(name(), self.lineage), (OTHER.parse()?, self.other)] {
            let pin = memory.seen(lineage).await?.unwrap_or_default();
            pins.push((name, lineage, pin));
        }
        Ok(pins)
    }

    /// The forgeries of an attacker who was the recipient `former`, holds the earlier stages, and knows the lineage of
    /// the other stack.
    async fn catalogue_of(&self, former: &GeneratedIdentity) -> Result<Arc<Vec<CatalogueEntry>>> {
        let mut earlier = Vec::new();
        for stage in &self.stages[..self.stages.len() - 1] {
            earlier.push(stage.image().await?);
        }
        // The data key of the second stage, when the former recipient could open it.
        let held = earlier.get(1).and_then(|image| {
            let id = image.head(self.lineage)?.key_id?;
            let folder = format!("stacks/{}/keys/", self.lineage);
            let files = image.below(&folder);
            let files: Vec<_> = files
                .filter(|(file, _)| file.contains(&id.to_string()))
                .map(|(_, bytes)| bytes.to_vec())
                .collect();
            keys(&[former]).unwrap(self.lineage, id, &files).ok()
        });
        let held = held.ok_or_else(|| Error::not_found("the key of the former recipient"))?;
        self.keys.lose(held.id());
        let identity = generate_identity();
        let foreign = keys(&[&identity]);
        let key = foreign.generate(self.lineage)?;
        let victims = [self.recipient.clone()];
        let wrapped = foreign.wrap(key.id(), Some(&victims))?;
        let key_of_other = foreign.generate(self.other)?;
        let loot = Loot {
            lineage: self.lineage,
            author: USER.to_owned(),
            recipient: MALLORY.to_owned(),
            other: Some(self.other),
            other_name: Some(OTHER.parse()?),
            earlier,
            former: Some(held),
            wrapped: wrapped.files.into_iter().next().map(Into::into),
            outputs: forged_outputs(&*key, &name(), &victims)?,
        };
        let of_other = Loot {
            outputs: forged_outputs(&*key_of_other, &OTHER.parse()?, &victims)?,
            lineage: self.other,
            other: Some(self.lineage),
            other_name: Some(name()),
            ..loot.clone()
        };
        let [rows, rows_of_other] = [loot, of_other].map(|loot| catalogue(&Arc::new(loot)));
        Ok(Arc::new(by_stack(self.other, rows, rows_of_other)))
    }

    /// The store on which a command starts.
    pub(crate) fn before(&self, command: Command) -> &Disk {
        match command.interrupted_move() {
            Some(is_committed) => &self.moves[usize::from(is_committed)].disk,
            None if command.is_after_imports() => &self.imports.disk,
            None if command.is_after_a_crash() => &self.crashed,
            None => self.last(),
        }
    }

    /// The pins of a client with memory before it runs a command.
    pub(crate) fn pins_before(&self, command: Command) -> Pins {
        let mut pins = match command.interrupted_move() {
            Some(is_committed) => self.moves[usize::from(is_committed)].pins.clone(),
            None if command.is_after_imports() => self.imports.pins.clone(),
            None => self.pins.clone(),
        };
        if command == Command::FirstOutputs {
            pins.iter_mut().for_each(|(_, _, pin)| pin.outputs = None);
        }
        pins.retain(|(_, lineage, _)| *lineage != self.lineage || command.knows_stack());
        pins
    }

    /// The stack under attack and the other stack.
    pub(crate) const fn lineages(&self) -> [Lineage; 2] {
        [self.lineage, self.other]
    }

    /// The path of the head of the stack under attack.
    pub(crate) fn head(&self) -> String {
        format!("stacks/{}/head.json", self.lineage)
    }

    /// The key of a stack in the last stage.
    pub(crate) async fn last_key(&self, lineage: Lineage) -> Option<KeyId> {
        let image = self.last().image().await.ok()?;
        image.head(lineage)?.key_id
    }

    /// The last stage before the crash.
    pub(crate) fn last(&self) -> &Disk {
        &self.stages[self.stages.len() - 1]
    }

    /// A client with the keys of this scenario. Equal seeds give equal ids and nonces.
    pub(crate) fn stacks(&self, backend: Arc<dyn Backend>, seed: u64) -> Stacks {
        let entropy = Arc::new(SeededEntropy::new(seed));
        let environment = Environment {
            entropy,
            ..environment()
        };
        let keys: Arc<dyn KeyProvider> = Arc::<CachedKeys>::clone(&self.keys);
        Stacks::new(backend, environment).with_keys(keys)
    }

    /// The memory of a client before it runs a command.
    pub(crate) async fn memory(&self, command: Command) -> Arc<MemoryKnownStacks> {
        let memory: Arc<MemoryKnownStacks> = Arc::default();
        for (name, lineage, pin) in &self.pins_before(command) {
            memory.replace(*lineage, None, Some(pin)).await;
            memory.replace_name(name, None, Some(*lineage)).await;
        }
        memory
    }

    /// Runs a command on a copy of the store `on`, while the attacker makes the changes of the plan. With `remembers`,
    /// the client knows the store on which the command starts.
    pub(crate) async fn run(
        &self,
        on: &Disk,
        command: Command,
        plan: Vec<Intervention>,
        remembers: bool,
    ) -> Run {
        let spooled = self.spooled.as_ref();
        let memory = match remembers {
            true => Some(self.memory(command).await),
            false => None,
        };
        let calls = async |stacks: &Stacks, elsewhere: &Stacks| command.run(stacks, elsewhere, spooled).await;
        self.run_calls(on, plan, memory, calls).await
    }

    /// As [`Self::run`], with the calls of a command and the memory of the client. The calls get the client of the store,
    /// and a client of an empty store.
    pub(crate) async fn run_calls(
        &self,
        on: &Disk,
        plan: Vec<Intervention>,
        memory: Option<Arc<MemoryKnownStacks>>,
        calls: impl AsyncFn(&Stacks, &Stacks) -> Result<Answer>,
    ) -> Run {
        let disk = on.copy();
        let attacker = Attacker::default();
        let backend = disk.under(&attacker).await.expect("nothing is forged yet");
        let first_edit = plan.iter().map(|intervention| intervention.at).min();
        attacker.plan(plan);
        let mut stacks = self.stacks(backend, 5);
        if let Some(memory) = &memory {
            let known: Arc<dyn KnownStacks> = Arc::<MemoryKnownStacks>::clone(memory);
            stacks = stacks.with_known_stacks(known);
        }
        let elsewhere = Disk::new(self.kind);
        let elsewhere = elsewhere
            .under(&Attacker::default())
            .await
            .expect("an empty store");
        let elsewhere = self.stacks(elsewhere, 6);
        let answer = calls(&stacks, &elsewhere).await;
        Run {
            answer,
            requests: attacker.requests(),
            edits: attacker.edits_made(),
            first_edit,
            attacker,
            disk,
            memory,
        }
    }
}

/// Adds a recipient of the outputs, and sets a stack output.
pub(crate) async fn publish_to(stack: &Stack, reader: &GeneratedIdentity) -> Result<()> {
    let reader = [reader.recipient().to_owned()];
    stack.add_output_recipients("recipients add", &reader).await?;
    let session = stack.lock("build").await?;
    publish(&session).await?;
    session.close().await
}

/// Published outputs that an attacker sealed with their own key and wrapped to these recipients, for the first serials of a
/// stack.
fn forged_outputs(
    key: &dyn StackKey,
    stack: &StackName,
    recipients: &[String],
) -> Result<Vec<(Serial, Bytes)>> {
    let mut outputs = StackOutputs::default();
    let url = Json::parse(&format!(r#""https://{MARKER}""#));
    let url = url.map_err(|error| Error::invalid("output", error.to_string()))?;
    outputs.values.insert("url".to_owned(), url);
    let document = |serial| {
        let policy = SealingPolicy::All;
        let document = key.outputs_document(policy, stack, Serial(serial), &outputs, recipients)?;
        Ok((Serial(serial), document.into()))
    };
    (1..=SERIALS).map(document).collect()
}

/// Forgeries of the stack to which the object of a request belongs: `rows` for the stack under attack and for objects
/// of no stack, `rows_of_other` for the stack `other`.
fn by_stack(
    other: Lineage,
    rows: Vec<CatalogueEntry>,
    rows_of_other: Vec<CatalogueEntry>,
) -> Vec<CatalogueEntry> {
    let marks: Arc<[String; 2]> = Arc::new([other.to_string(), format!("names/{OTHER}")]);
    let pairs = rows.into_iter().zip(rows_of_other);
    let choice = |(row, of_other): (CatalogueEntry, CatalogueEntry)| {
        let (kind, name, marks) = (row.kind, row.name.clone(), Arc::clone(&marks));
        let rewrite = Rewrite::new(name.clone(), move |store, object| {
            let is_of_other = marks.iter().any(|mark| object.contains(mark));
            let chosen = if is_of_other { &of_other } else { &row };
            chosen.edits(store, object)
        });
        let action = Action::Rewrite(rewrite);
        CatalogueEntry { kind, name, action }
    };
    pairs.map(choice).collect()
}

/// A key provider that opens with all of these identities and wraps to the first.
pub(crate) fn keys(identities: &[&GeneratedIdentity]) -> CachedKeys {
    let text: String = identities.iter().map(|one| format!("{}\n", one.file())).collect();
    let recipients = identities[0].recipient().parse().expect("a good recipient");
    let identities = Identities::parse("identity", &text).expect("good identities");
    CachedKeys::new(AgeKeys::new(identities, recipients, environment().entropy))
}

//! Judges a run under attack: nothing forged may be signed, acknowledged, shown as authentic, or remembered. The oracle
//! compares the run with honest runs of the same command, from each stage of the store.

use crate::checks::{check_leaks, check_memory, is_between};
use crate::client::{Answer, Resources, Shown, look};
use crate::commands::Command;
use crate::disk::Disk;
use crate::excuses::{Excuses, is_of_former_key, is_tail_unseen, is_unread_log};
use crate::moves;
use crate::queries::{OTHER_STACK, PUBLISHED, other_stack};
use crate::scenario::{Run, Scenario};
use crate::written::{frames_of_rotations, made, revision};
use state_core::testkit::hostile::Attacker;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Enveloped, Head, Lineage, Result, RevisionId};
use state_manager::{Authenticity, KnownStacks, Stacks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The answers of honest runs of all commands, from each stage of the store, and the authentic content of these stages.
pub(crate) struct Oracle {
    /// By command, and by whether the client remembers the last stage.
    allowed: BTreeMap<(Command, bool), Allowed>,
    /// All revisions of the honest stages.
    revisions: BTreeSet<RevisionId>,
    /// The chain digests of all frames of both stacks in the honest stages.
    pub(crate) chains: BTreeSet<Digest>,
    /// The heads of both stacks in the honest stages, oldest first.
    pub(crate) heads: Vec<Head>,
    /// The resources as they were before the update in which a writer crashed.
    before_crash: Resources,
    /// What an honest client answers about the spooled result of that writer, on the store before the crash.
    spooled_before_crash: BTreeSet<(String, String)>,
}

/// The answers of honest runs of one command.
#[derive(Default)]
struct Allowed {
    sealing: BTreeSet<String>,
    resources: BTreeSet<Resources>,
    facts: BTreeSet<(String, String)>,
    /// Whether the stack may be missing before or after the command.
    is_missing: bool,
}

impl Oracle {
    /// Runs all commands without an attacker and collects their answers.
    pub(crate) async fn learn(scenario: &Scenario) -> Result<Self> {
        let mut oracle = Self {
            allowed: BTreeMap::new(),
            revisions: BTreeSet::new(),
            chains: BTreeSet::new(),
            heads: Vec::new(),
            before_crash: Resources::default(),
            spooled_before_crash: BTreeSet::new(),
        };
        let last = scenario.run(scenario.last(), Command::Read, Vec::new(), false);
        if let Some(shown) = last.await.answer?.shown {
            oracle.before_crash = shown.resources;
        }
        let spooled = scenario.run(scenario.last(), Command::RecordSpooled, Vec::new(), false);
        oracle.spooled_before_crash = spooled.await.answer?.facts.into_iter().collect();
        let interrupted = || scenario.moves.iter().map(|moment| &moment.disk);
        let stages = scenario.stages.iter().chain(interrupted());
        for stage in stages.chain([&scenario.crashed, &scenario.imports.disk]) {
            let image = stage.image().await?;
            for lineage in scenario.lineages() {
                let frames = image.frames(lineage);
                oracle
                    .chains
                    .extend(frames.iter().map(|(_, frame)| *frame.chain()));
                oracle.heads.extend(image.head(lineage));
            }
            let shown = scenario.run(stage, Command::Read, Vec::new(), false).await;
            let shown = shown.answer?.shown;
            oracle
                .revisions
                .extend(shown.into_iter().flat_map(|shown| shown.revisions));
        }
        for command in Command::ALL {
            for stage in scenario.stages.iter().chain(&scenario.moments) {
                oracle.learn_run(scenario, stage, command, false).await;
            }
            if command.interrupted_move().is_some() {
                for stage in interrupted() {
                    oracle.learn_run(scenario, stage, command, false).await;
                }
            }
            oracle
                .learn_run(scenario, scenario.before(command), command, false)
                .await;
            oracle
                .learn_run(scenario, scenario.before(command), command, true)
                .await;
        }
        Ok(oracle)
    }

    /// Adds the answers of one honest run to those that are allowed.
    async fn learn_run(&mut self, scenario: &Scenario, stage: &Disk, command: Command, remembers: bool) {
        let allowed = self.allowed.entry((command, remembers)).or_default();
        let before = scenario
            .run(stage, Command::Read, Vec::new(), remembers)
            .await
            .answer;
        let run = scenario.run(stage, command, Vec::new(), remembers).await;
        // To a client without memory, the attacker can show the other stack as it was before the move. A client with
        // memory has seen the stack after the move, unless the move stays interrupted.
        let other = match command {
            _ if command.is_about_both() && (!remembers || command != Command::MoveResource) => {
                let calls = async |stacks: &Stacks, _: &Stacks| {
                    let mut facts = Vec::new();
                    other_stack(stacks, &mut facts).await?;
                    Ok(Answer { shown: None, facts })
                };
                let run = scenario.run_calls(stage, Vec::new(), None, calls).await;
                run.answer.unwrap_or_default().facts
            }
            _ => Vec::new(),
        };
        allowed.facts.extend(other);
        // A command may fail in an early stage, which then allows no answers.
        for answer in [before, run.answer].into_iter().flatten() {
            allowed.facts.extend(answer.facts);
            match answer.shown {
                Some(shown) => {
                    allowed.sealing.insert(shown.sealing);
                    allowed.resources.insert(shown.resources);
                }
                None => allowed.is_missing = true,
            }
        }
    }

    /// Returns descriptions of the rules that a run broke.
    pub(crate) async fn judge(
        &self,
        scenario: &Scenario,
        command: Command,
        remembers: bool,
        run: &Run,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        moves::check(scenario, command, remembers, run, &mut broken).await;
        check_memory(scenario, command, run, &mut broken).await;
        let remembers = remembers && command.knows_stack();
        let is_sealed_anew = |lineage| !remembers && self.is_sealed_anew(lineage, run);
        if is_sealed_anew(scenario.lineage) {
            return broken;
        }
        let mut excuses = Excuses::of_next_reader(made(scenario, run));
        if !command.is_read_only() {
            let written = run.disk.image().await.unwrap_or_default();
            let own = match remembers {
                true => BTreeSet::new(),
                false => frames_of_rotations(scenario, run),
            };
            let lineages = scenario.lineages().into_iter();
            for lineage in lineages.filter(|lineage| !is_sealed_anew(*lineage)) {
                self.check_journal(scenario, lineage, (run, &written), &own, &mut broken);
                self.check_heads(scenario, lineage, remembers, run, &mut broken);
            }
            self.check_left(scenario, command, remembers, run, &excuses, &mut broken)
                .await;
        }
        if let Ok(answer) = &run.answer
            && !is_of_former_key(scenario, remembers, answer)
        {
            excuses.is_log_attacked = run.edits > 0;
            excuses.is_other_sealed_anew = is_sealed_anew(scenario.other);
            excuses.is_tail_unseen = command.is_after_a_crash() && is_tail_unseen(scenario, run).await;
            if !remembers {
                excuses.former = self.forged_with_former_key(scenario, run).await;
            }
            self.check_answer(command, remembers, answer, &excuses, &mut broken);
        }
        if remembers {
            check_leaks(run, &mut broken);
        }
        broken
    }

    /// Whether the client gave a stack a first key. A client without memory believes a forged head that shows the stack
    /// as never sealed, so it seals the forged content with a new key. This is a documented limit; `--expect-key`
    /// prevents it.
    fn is_sealed_anew(&self, lineage: Lineage, run: &Run) -> bool {
        let known: Vec<_> = self.heads.iter().filter_map(|head| head.key_id).collect();
        let written = run.attacker.versions(&format!("stacks/{lineage}/head.json"));
        written
            .into_iter()
            .flatten()
            .filter_map(|bytes| Head::decode("head", &bytes).ok())
            .any(|head| {
                let is_known = head.key_id.is_none_or(|key| known.contains(&key));
                !is_known && head.keys.is_some_and(|keys| keys.succession.is_empty())
            })
    }

    /// Returns the revisions that the attacker forged with a former key. They are excused if the store ends with an
    /// authentic head of an earlier stage under that key: between two reads of one command, the attacker showed a
    /// client without memory the store of a time when the attacker held the stack's key. Returns no revisions for any
    /// other head.
    async fn forged_with_former_key(&self, scenario: &Scenario, run: &Run) -> BTreeSet<RevisionId> {
        let image = run.disk.image().await.unwrap_or_default();
        let Some(head) = image.head(scenario.lineage) else {
            return BTreeSet::new();
        };
        let lost = head.key_id.filter(|id| scenario.keys.honest(*id).is_none());
        let Some(key) = lost.and_then(|id| scenario.keys.any(id)) else {
            return BTreeSet::new();
        };
        // The tag doesn't cover the epoch and the generation of the object, so the attacker may have changed both.
        let is_earlier = self.heads.iter().any(|earlier| {
            let mut earlier = earlier.clone();
            (earlier.epoch, earlier.generation) = (head.epoch, head.generation);
            earlier.encode() == head.encode()
        });
        if !is_earlier || head.authenticate(&scenario.head(), &*key).is_err() {
            return BTreeSet::new();
        }
        let frames = image.frames(scenario.lineage).into_iter();
        let signed = frames.filter(|(_, frame)| frame.is_authentic(&*key));
        let forged = signed.filter(|(_, frame)| !self.chains.contains(frame.chain()));
        forged
            .filter_map(|(_, frame)| revision(frame.payload(), frame.chain()))
            .collect()
    }

    /// Checks that the answer of the command is one that an honest run gives.
    fn check_answer(
        &self,
        command: Command,
        remembers: bool,
        answer: &Answer,
        excuses: &Excuses,
        broken: &mut Vec<String>,
    ) {
        let allowed = &self.allowed[&(command, remembers)];
        self.check_outputs(command, remembers, answer, broken);
        let Some(shown) = &answer.shown else {
            // A client without memory can't distinguish a deleted name from one that never existed.
            if remembers && !allowed.is_missing {
                broken.push("a known stack is hidden".to_owned());
            }
            return;
        };
        if shown.is_regressed {
            return;
        }
        // A client without memory accepts a head that shows the stack as never sealed, and reports it as not
        // authenticated.
        if shown.authenticity != Authenticity::Checked {
            // The answer to `Copy` is about the target store, which the client doesn't know.
            if remembers && command != Command::Copy {
                broken.push(format!("a known stack is shown as {:?}", shown.authenticity));
            }
            return;
        }
        self.check_shown(allowed, shown, excuses, broken);
        let is_cut = excuses.is_tail_unseen && shown.resources == self.before_crash;
        if !is_cut && !allowed.resources.contains(&shown.resources) {
            broken.push(format!("the command shows {:?}", shown.resources));
        }
        let facts = answer.facts.iter().filter(|(question, _)| question != PUBLISHED);
        for (question, fact) in facts {
            let answer = (question.clone(), fact.clone());
            let is_known = allowed.facts.contains(&answer)
                || (excuses.is_tail_unseen && self.spooled_before_crash.contains(&answer))
                || (excuses.is_log_attacked && is_unread_log(question, fact, &allowed.facts));
            let is_new = excuses.made.iter().any(|revision| {
                question.ends_with(&revision.to_string()) || fact.contains(&revision.to_string())
            });
            let is_excused = excuses.is_other_sealed_anew && question == OTHER_STACK;
            if !is_known && !is_new && !is_excused {
                broken.push(format!("the command answers {question}: {fact}"));
            }
        }
    }

    /// Checks published outputs, which a client also reads if it can't authenticate the state. A client that knows the
    /// stack and never read its outputs accepts those of an earlier revision; a client without memory also those of
    /// another key.
    fn check_outputs(&self, command: Command, remembers: bool, answer: &Answer, broken: &mut Vec<String>) {
        let is_first = command == Command::FirstOutputs;
        let allowed = &self.allowed[&(command, remembers && !is_first)];
        for fact in answer.facts.iter().filter(|(question, _)| question == PUBLISHED) {
            let is_foreign = !remembers && fact.1.contains(MARKER);
            if !is_foreign && !allowed.facts.contains(fact) {
                broken.push(format!("the command answers {}: {}", fact.0, fact.1));
            }
        }
    }

    /// Checks that a state that is shown as authentic has no forged head, lock, history or content.
    fn check_shown(&self, allowed: &Allowed, shown: &Shown, excuses: &Excuses, broken: &mut Vec<String>) {
        if !allowed.sealing.contains(&shown.sealing) {
            broken.push(format!("shown as authentic: {}", shown.sealing));
        }
        if shown.lock.as_ref().is_some_and(|message| message != "freeze") {
            broken.push(format!("shown as authentic: client lock {:?}", shown.lock));
        }
        let is_known = |revision: &RevisionId| {
            self.revisions.contains(revision)
                || excuses.made.contains(revision)
                || excuses.former.contains(revision)
        };
        if shown.is_foreign || (shown.is_history_foreign && excuses.former.is_empty()) {
            broken.push(format!("shown as authentic: content with {MARKER:?}"));
        }
        for revision in shown.revisions.iter().filter(|revision| !is_known(revision)) {
            broken.push(format!("shown as authentic: revision {revision}"));
        }
    }

    /// Checks the state that the next reader is shown: it must be the state before the command, after it, or between
    /// two steps of an honest run.
    async fn check_left(
        &self,
        scenario: &Scenario,
        command: Command,
        knows: bool,
        run: &Run,
        excuses: &Excuses,
        broken: &mut Vec<String>,
    ) {
        let Ok(backend) = run.disk.under(&Attacker::default()).await else {
            return;
        };
        let mut stacks = scenario.stacks(backend, 7);
        if knows {
            let memory: Arc<dyn KnownStacks> = scenario.memory(command).await;
            stacks = stacks.with_known_stacks(memory);
        }
        let answer = match look(&stacks).await {
            Ok(answer) if !is_of_former_key(scenario, knows, &answer) => answer,
            _ => return,
        };
        let Some(shown) = answer.shown else {
            return;
        };
        if shown.is_regressed || shown.authenticity != Authenticity::Checked {
            return;
        }
        let mut found = Vec::new();
        let allowed = &self.allowed[&(command, knows)];
        self.check_shown(allowed, &shown, excuses, &mut found);
        if !is_between(&shown.resources, &allowed.resources) {
            found.push(format!("shown as authentic: {:?}", shown.resources));
        }
        broken.extend(
            found
                .into_iter()
                .map(|rule| format!("the next reader (memory: {knows}): {rule}")),
        );
    }
}

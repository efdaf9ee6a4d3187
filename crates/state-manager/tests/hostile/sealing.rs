//! Gives a plain stack its first data key under attack. Nothing authenticates a plain stack, so the client seals whatever
//! content it reads (`docs/threat-model.md`). The recipients, the policy and the objects that the first signed head
//! names must still be the client's own.

use crate::client::{Answer, Resources, look};
use crate::commands::{Command, found};
use crate::disk::{Disk, Kind};
use crate::scenario::{MALLORY, Moment, OTHER, Run, Scenario, USER, environment, keys, name};
use crate::updates::{publish, update};
use crate::written::contains;
use crate::{Tally, block_on};
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::testkit::hostile::forgeries::{MARKER, catalogue};
use state_core::testkit::hostile::schedule::singles;
use state_core::testkit::hostile::{Attacker, Intervention, Loot, Request, Verb};
use state_core::{Enveloped, Error, Head, Lineage, Result};
use state_encrypt::generate_identity;
use state_manager::{Authenticity, Rekey, Stacks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes a store with two plain stacks and two stages, and the forgeries of an attacker who has a copy of the first.
async fn build(kind: Kind) -> Result<Scenario> {
    let own = generate_identity();
    let disk = Disk::new(kind);
    let mut scenario = Scenario {
        kind,
        lineage: Lineage::from_bits([0; 16]),
        other: Lineage::from_bits([0; 16]),
        stages: Vec::new(),
        moments: Vec::new(),
        crashed: Disk::new(kind),
        imports: Moment::empty(kind),
        moves: Vec::new(),
        spooled: None,
        keys: Arc::new(keys(&[&own])),
        pins: Vec::new(),
        catalogue: Arc::default(),
        recipient: own.recipient().to_owned(),
    };
    let stacks = scenario.stacks(disk.under(&Attacker::default()).await?, 1);
    let policy = SealingPolicy::Plaintext;
    let stack = stacks.new_stack_with(&name(), policy).await?;
    let other = stacks.new_stack_with(&OTHER.parse()?, policy).await?;
    (scenario.lineage, scenario.other) = (stack.lineage(), other.lineage());
    for stack in [&stack, &other] {
        let session = stack.lock("build").await?;
        update(&session, "built-0").await?;
        session.close().await?;
    }
    scenario.stages.push(disk.copy());
    let session = stack.lock("build").await?;
    update(&session, "built-1").await?;
    publish(&session).await?;
    session.close().await?;
    scenario.stages.push(disk.copy());
    scenario.pins = scenario.remembered(&disk).await?;
    let foreign = keys(&[&generate_identity()]);
    let key = foreign.generate(scenario.lineage)?;
    let wrapped = foreign.wrap(key.id(), Some(std::slice::from_ref(&scenario.recipient)))?;
    let loot = Loot {
        lineage: scenario.lineage,
        author: USER.to_owned(),
        recipient: MALLORY.to_owned(),
        other: Some(scenario.other),
        other_name: Some(OTHER.parse()?),
        earlier: vec![scenario.stages[0].image().await?],
        former: None,
        wrapped: wrapped.files.into_iter().next().map(Into::into),
        // A plain stack publishes no outputs.
        outputs: Vec::new(),
    };
    scenario.catalogue = Arc::new(catalogue(&Arc::new(loot)));
    Ok(scenario)
}

/// Seals the stack with the policy `all`, as `statectl encrypt --policy all` does.
async fn seal(stacks: &Stacks) -> Result<Answer> {
    let stack = found(stacks).await?;
    let recipients = stack.recipients().await?.of_stack;
    if stack.policy().await? == SealingPolicy::All && !recipients.is_empty() {
        return Err(Error::conflict("the stack", "it is sealed"));
    }
    let request = Rekey {
        policy: Some(SealingPolicy::All),
        ..Rekey::default()
    };
    stack.rekey("encrypt", request).await?;
    Ok(Answer::default())
}

/// The heads of the stack that the client signed in a run, oldest first.
fn signed(scenario: &Scenario, run: &Run) -> Vec<Head> {
    let path = scenario.head();
    let written = run.attacker.versions(&path).into_iter().flatten();
    let heads = written.filter_map(|bytes| Head::decode(&path, &bytes).ok());
    let is_signed = |head: &Head| {
        let key = head.key_id.and_then(|id| scenario.keys.honest(id));
        key.is_some_and(|key| head.authenticate(&path, &*key).is_ok())
    };
    heads.filter(is_signed).collect()
}

/// Returns the rules that the signed heads of a run break.
fn judge_heads(scenario: &Scenario, run: &Run) -> Vec<String> {
    let mut broken = Vec::new();
    let heads = signed(scenario, run);
    let objects = run.attacker.objects();
    let exists = |short: &str| objects.iter().any(|object| object.contains(short));
    for head in &heads {
        let mut require = |holds: bool, rule: &str| {
            if !holds {
                broken.push(format!("signed: {rule}"));
            }
        };
        let keys = head.keys.as_ref();
        require(
            keys.is_some_and(|keys| keys.recipients == [scenario.recipient.clone()]),
            "foreign recipients",
        );
        require(
            keys.is_some_and(|keys| keys.outputs.is_empty()),
            "recipients of the outputs",
        );
        require(
            keys.is_some_and(|keys| keys.names.is_empty()),
            "names of recipients",
        );
        let mut links = keys.into_iter().flat_map(|keys| &keys.succession);
        require(
            links.all(|link| scenario.keys.honest(link.old).is_some()),
            "a foreign key",
        );
        require(head.policy != SealingPolicy::Plaintext, "the policy `plaintext`");
        require(head.lineage == scenario.lineage, "another lineage");
        require(head.client_lock.is_none(), "a client lock");
        let mut snapshots = head.bases().flat_map(|(_, base)| base.snapshots());
        require(
            snapshots.all(|snapshot| exists(&snapshot.digest.short())),
            "a base that doesn't exist",
        );
        let mut pages = head.history.pages.iter();
        require(
            pages.all(|page| exists(&page.digest.short())),
            "a page that doesn't exist",
        );
    }
    let last = heads.last().filter(|_| run.answer.is_ok());
    if last.is_some_and(|head| head.policy != SealingPolicy::All) {
        broken.push("sealed with another policy than the user asked for".to_owned());
    }
    if run.answer.is_ok() && last.is_none() {
        broken.push("acknowledged without a signed head".to_owned());
    }
    broken
}

/// The number of the request with which the client stores its first key file. It has then read all content that it
/// seals.
fn end_of_reading(requests: &[Request]) -> usize {
    let is_key = |request: &Request| request.verb == Verb::Write && request.object.contains("/keys/");
    requests.iter().position(is_key).unwrap_or(requests.len())
}

/// The resources of the stack in the honest stages.
async fn honest_resources(scenario: &Scenario) -> BTreeSet<Resources> {
    let mut honest = BTreeSet::new();
    for stage in &scenario.stages {
        let run = scenario.run_calls(stage, Vec::new(), None, async |stacks, _| look(stacks).await);
        let shown = run.await.answer.expect("an honest stage is read").shown;
        honest.extend(shown.map(|shown| shown.resources));
    }
    honest
}

/// Checks that the next reader isn't shown other content as authentic than the content that the client read. `at` is
/// the number of the request before which the forgery was made.
async fn judge_content(scenario: &Scenario, run: &Run, at: usize) -> Vec<String> {
    let mut broken = Vec::new();
    if at < end_of_reading(&run.requests) {
        // The forged content was read and sealed, because nothing authenticates a plain stack.
        return broken;
    }
    for head in signed(scenario, run) {
        let pages = head.history.pages.iter().map(|page| page.digest.short());
        let pages: Vec<String> = pages.map(|short| short.to_string()).collect();
        for object in run.attacker.objects() {
            let is_named = pages.iter().any(|page| object.contains(page));
            let versions = run.attacker.versions(&object).into_iter().flatten();
            if is_named && { versions }.any(|bytes| contains(&bytes, MARKER)) {
                broken.push(format!("signed: forged history in {object}"));
            }
        }
    }
    let Ok(backend) = run.disk.under(&Attacker::default()).await else {
        return broken;
    };
    let Ok(Answer {
        shown: Some(shown), ..
    }) = look(&scenario.stacks(backend, 7)).await
    else {
        return broken;
    };
    if shown.authenticity == Authenticity::Checked
        && (shown.is_foreign
            || shown.is_history_foreign
            || !honest_resources(scenario).await.contains(&shown.resources))
    {
        broken.push(format!("shown as authentic, with forged parts: {shown:?}"));
    }
    broken
}

/// Seals the stack under attack, by a client with or without memory.
async fn attack(scenario: &Scenario, plan: Vec<Intervention>, remembers: bool) -> Run {
    let memory = match remembers {
        true => Some(scenario.memory(Command::Read).await),
        false => None,
    };
    let seals = async |stacks: &Stacks, _: &Stacks| seal(stacks).await;
    scenario.run_calls(scenario.last(), plan, memory, seals).await
}

/// Runs the command under each single forgery before the requests from the number `from` on, and judges each run.
fn attack_sealing(
    rule: &str,
    from: fn(&[Request]) -> usize,
    judge: impl AsyncFn(&Scenario, &Run, usize) -> Vec<String> + Sync,
) {
    for kind in [Kind::Files, Kind::Objects] {
        let scenario = block_on(build(kind)).expect("the scenario is built");
        let mut schedules = Vec::new();
        for remembers in [false, true] {
            let run = block_on(attack(&scenario, Vec::new(), remembers));
            assert_eq!(
                block_on(judge(&scenario, &run, usize::MAX)),
                [""; 0],
                "{kind:?}: an honest run"
            );
            run.answer.expect("an honest run");
            let requests = Arc::new(run.requests);
            let chosen = singles(&requests, &scenario.catalogue).into_iter();
            for (at, forgery) in chosen.filter(|(at, _)| *at >= from(&requests)) {
                schedules.push((remembers, Arc::clone(&requests), at, forgery));
            }
        }
        let signed_anyway = AtomicUsize::new(0);
        let clock = environment().clock;
        let tally = Tally::default();
        tally.run(schedules.len(), async |number| {
            let (remembers, requests, at, forgery) = &schedules[number];
            let chosen = &scenario.catalogue[*forgery];
            let object = &requests[*at].object;
            let context = format!(
                "{kind:?}, memory: {remembers}, {} at {at} on {object}",
                chosen.name
            );
            let plan = vec![Intervention::on_request(*at, chosen.action.clone())];
            let run = attack(&scenario, plan, *remembers).await;
            let is_signed = run.edits > 0 && !signed(&scenario, &run).is_empty();
            signed_anyway.fetch_add(usize::from(is_signed), Ordering::Relaxed);
            (run.edits > 0, judge(&scenario, &run, *at).await, context)
        });
        tally.report(&format!("{rule}, {kind:?}"), schedules.len(), &*clock);
        // A client that refused every forged store would sign nothing that could break a rule.
        assert!(signed_anyway.into_inner() > 100, "{kind:?}: too few signed heads");
    }
}

#[test]
fn sealing_a_plain_stack_signs_no_forged_recipient() {
    attack_sealing(
        "sealed heads",
        |_| 0,
        async |scenario, run, _| judge_heads(scenario, run),
    );
}

#[test]
fn content_read_before_sealing_is_the_content_sealed() {
    attack_sealing("sealed content", end_of_reading, async |scenario, run, at| {
        judge_content(scenario, run, at).await
    });
}

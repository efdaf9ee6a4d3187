//! Random generation of programs, operations, call modes, drift and crashes.

use crate::cloud::{CallMode, CallPlan};
use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::fault::{Fault, Operation as Call};
use state_core::{Address, Entropy, Json, Properties};
use state_engine::{Interrupt, Operation, RunOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// A random number source; clones share its sequence.
#[derive(Clone)]
pub(crate) struct Random(Arc<SeededEntropy>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(SeededEntropy::new(seed)))
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound.max(1)
    }

    pub(crate) fn one_in(&self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn index(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub(crate) fn shuffle<T>(&self, list: &mut [T]) {
        for place in (1..list.len()).rev() {
            list.swap(place, self.index(place + 1));
        }
    }
}

/// A random program: any order and any references, but no dependency cycle.
pub(crate) fn program(random: &Random) -> Vec<Spec> {
    let mut names = NAMES;
    random.shuffle(&mut names);
    let mut specs: Vec<Spec> = Vec::new();
    for name in names {
        if random.one_in(4) {
            continue;
        }
        let drawn = resource(random, name, &specs);
        specs.push(drawn);
    }
    random.shuffle(&mut specs);
    specs
}

/// A random resource that may refer to the resources in `before`.
pub(super) fn resource(random: &Random, name: &str, before: &[Spec]) -> Spec {
    let mut drawn = spec(name);
    let some = |of: u64| -> Vec<String> {
        let chosen = before.iter().filter(|_| random.one_in(of));
        chosen.map(|spec| spec.name.clone()).collect()
    };
    let one = |of: u64| -> Option<String> {
        let chosen = random.one_in(of) && !before.is_empty();
        chosen.then(|| before[random.index(before.len())].name.clone())
    };
    drawn.solo = random.one_in(3);
    drawn.size = random.below(3);
    drawn.fixed = random.below(2);
    drawn.uses = some(4);
    drawn.needs = some(5);
    drawn.depends_on = some(6);
    drawn.parent = one(5);
    drawn.provider = one(6);
    drawn.inside = one(6);
    drawn.replace_with = some(12);
    drawn.protect = random.one_in(10);
    drawn.retain = random.one_in(10);
    drawn.delete_first = [None, None, Some(true), Some(false)][random.index(4)];
    if random.one_in(6) {
        let free: Vec<&str> = NAMES
            .into_iter()
            .filter(|other| *other != name && before.iter().all(|spec| spec.name != **other))
            .collect();
        if !free.is_empty() {
            drawn.aliases = vec![free[random.index(free.len())].to_owned()];
        }
    }
    drawn
}

/// A random run with faults.
pub(crate) struct Plan {
    kind: Kind,
    specs: Vec<Spec>,
    pub(crate) options: RunOptions,
    /// The average number of calls per failed call. If `None`, no call fails.
    wrong: Option<u64>,
    /// Whether objects change outside of the engine before the run.
    drift: bool,
    /// The fault that ends the run early, if any.
    cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Update,
    Refresh,
    Destroy,
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The store fails at this append.
    Store(usize, Fault),
    /// The run is dropped at this append, as in a crash of the process.
    Kill(usize),
    /// The run is interrupted at this append, once or twice.
    Interrupt(usize, u64),
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("kind", &self.kind)
            .field("specs", &self.specs)
            .field("options", &self.options)
            .field("wrong", &self.wrong)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl Plan {
    pub(crate) fn draw(random: &Random, harness: &Harness) -> Self {
        let kind = [
            Kind::Update,
            Kind::Update,
            Kind::Update,
            Kind::Refresh,
            Kind::Destroy,
        ][random.index(5)];
        let mut specs = program(random);
        adopt(random, harness, &mut specs);
        let mut options = RunOptions::default();
        options.timeout = None;
        options.parallel = 1 + random.index(4);
        options.continue_on_error = random.one_in(3);
        options.refresh = random.one_in(4);
        options.target_dependents = random.one_in(3);
        let state = harness.state();
        let there: Vec<Address> = state.entries().map(|entry| entry.address.clone()).collect();
        let known: Vec<Address> = match kind {
            Kind::Update => NAMES.iter().map(|name| name.parse().unwrap()).collect(),
            _ => there,
        };
        let some =
            |of: u64| -> BTreeSet<Address> { known.iter().filter(|_| random.one_in(of)).cloned().collect() };
        match random.below(6) {
            0 => options.targets = some(3),
            1 => options.exclude = some(3),
            2 => options.replace = some(4),
            _ => {}
        }
        let at = random.index(14);
        let cut = match random.below(8) {
            0 => Some(Cut::Store(at, Fault::BeforeEffect)),
            1 => Some(Cut::Store(at, Fault::AfterEffect)),
            2 | 3 => Some(Cut::Kill(at)),
            4 => Some(Cut::Interrupt(at, 1 + random.below(2))),
            _ => None,
        };
        Self {
            kind,
            specs,
            options,
            wrong: [None, Some(3), Some(8)][random.index(3)],
            drift: random.one_in(4),
            cut,
        }
    }

    pub(crate) fn operation(&self) -> Operation {
        match self.kind {
            Kind::Update => update(&self.specs),
            Kind::Refresh => Operation::Refresh,
            Kind::Destroy => Operation::Destroy,
        }
    }

    /// Changes and deletes objects outside of the engine.
    pub(crate) fn drift(&self, harness: &Harness, random: &Random) {
        if !self.drift {
            return;
        }
        for (id, thing) in harness.cloud.things() {
            // A deleted foreign object isn't recreated, so every later run of a program that reads the object would
            // fail.
            if thing.foreign {
                continue;
            }
            match random.below(6) {
                0 => harness.cloud.lose(&id),
                1 => harness.cloud.change(&id, resized(&thing.inputs, 9)),
                _ => {}
            }
        }
    }

    /// Sets random modes for all calls. With `hangs`, some calls never return, and the run has a time limit for calls.
    pub(crate) fn call_plan(&mut self, harness: &Harness, random: &Random, hangs: Option<&Random>) {
        let (random, wrong, hangs) = (random.clone(), self.wrong, hangs.cloned());
        if hangs.is_some() {
            self.options.timeout = Some(Duration::from_secs(60));
        }
        harness.cloud.set_modes(move |_, _| {
            let drawn = call_plan(&random, wrong);
            match &hangs {
                Some(hangs) if hangs.one_in(10) => {
                    let mode = [CallMode::Hangs, CallMode::HangsAfter][hangs.index(2)];
                    (mode, drawn.1, drawn.2)
                }
                _ => drawn,
            }
        });
    }

    /// Schedules the fault that ends the run early.
    pub(crate) fn cut(
        &self,
        harness: &Harness,
        random: &Random,
        killed: &Arc<Notify>,
        interrupt: &Interrupt,
    ) {
        match self.cut {
            None => {}
            Some(Cut::Store(at, fault)) => harness.faults.fail(Call::Append, at, fault),
            Some(Cut::Kill(at)) => {
                let (killed, before) = (Arc::clone(killed), random.one_in(2));
                harness.at_append(at, before, move || killed.notify_one());
            }
            Some(Cut::Interrupt(at, times)) => {
                let interrupt = interrupt.clone();
                harness.at_append(at, false, move || {
                    for _ in 0..times {
                        interrupt.request();
                    }
                });
            }
        }
    }
}

pub(super) fn call_plan(random: &Random, wrong: Option<u64>) -> CallPlan {
    let turns = |of: u64| if random.one_in(of) { random.index(6) } else { 0 };
    let mode = match wrong {
        Some(of) if random.one_in(of) => [
            CallMode::NotDone,
            CallMode::Partial,
            CallMode::UnknownBefore,
            CallMode::UnknownAfter,
            CallMode::PanicBefore,
            CallMode::PanicAfter,
        ][random.index(6)],
        _ => CallMode::Normal,
    };
    (mode, turns(2), turns(2))
}

/// Makes some resources read or import foreign objects.
fn adopt(random: &Random, harness: &Harness, specs: &mut [Spec]) {
    for spec in specs.iter_mut().filter(|_| random.one_in(10)) {
        let inputs = resized(&spec.inputs(|_| None).0, 5);
        let address: Address = "elsewhere".parse().unwrap();
        let id = harness.cloud.put(spec.kind(), &address, &inputs, true);
        if random.one_in(2) {
            spec.import = Some(id);
        } else {
            spec.read = Some(id);
        }
    }
}

/// Returns the inputs with another value of `size`.
pub(super) fn resized(inputs: &Properties, size: u64) -> Properties {
    let mut text = String::new();
    let mut object = state_core::json::ObjectWriter::new(&mut text);
    for (name, value) in inputs.view().members().into_iter().flatten() {
        if name != "size" {
            object.raw(&name, value.text());
        }
    }
    object.u64("size", size);
    object.finish();
    Properties::new(Json::parse(&text).unwrap()).unwrap()
}

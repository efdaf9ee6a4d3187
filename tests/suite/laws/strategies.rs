//! Generates histories: mostly valid actions, such as a correct tool performs, and some invalid ones.

use super::actions::{Action, Change, Field, Hand, Identity, Intention, Link, Report, Target, To};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use state_core::{Op, Outcome, UpdateResult};

/// Number of different addresses of entries; low, so that actions often concern the same entry.
pub(crate) const NAMES: u8 = 8;

/// Generates histories of 2 to `max` actions. A history begins with an update that creates up to `max / 4`
/// entries, and continues with arbitrary actions.
pub(crate) fn histories(max: usize) -> impl Strategy<Value = Vec<Action>> {
    let made = max / 4;
    let beginning = (vec(creates(), 0..=made), results());
    let rest = vec(actions(), 1..max - made);
    (beginning, rest).prop_map(|((mut history, result), rest)| {
        history.push(Action::Finish(result));
        history.extend(rest);
        history
    })
}

/// Generates 1 to `max` steps to run concurrently.
pub(crate) fn work(max: usize) -> impl Strategy<Value = Vec<(Intention, Report)>> {
    vec((intentions(), reports()), 1..=max)
}

/// Generates actions that create an entry.
fn creates() -> impl Strategy<Value = Action> {
    (new_targets(), changes()).prop_map(|(target, change)| {
        let intention = Intention {
            op: Op::Create,
            target,
            change,
            contrary: false,
            tombstone: false,
            misfit: false,
        };
        let report = Report {
            outcome: Outcome::Succeeded,
            change: None,
            misfit: false,
        };
        Action::Run(intention, report)
    })
}

fn actions() -> impl Strategy<Value = Action> {
    let index = any::<Index>;
    prop_oneof![
        12 => (intentions(), reports()).prop_map(|(intention, report)| Action::Run(intention, report)),
        10 => (Just(Target::Next), changes()).prop_map(|(target, change)| Action::Same(target, change)),
        5 => intentions().prop_map(Action::Begin),
        5 => (index(), reports()).prop_map(|(which, report)| Action::End(which, report)),
        3 => steps(),
        2 => vec(hands(), 1..4).prop_map(Action::Edit),
        2 => (index(), option::of(reports())).prop_map(|(which, report)| Action::Resolve(which, report)),
        3 => results().prop_map(Action::Finish),
        1 => Just(Action::Start),
        1 => (0..3_u8).prop_map(Action::Plugin),
        1 => (0..3_u8).prop_map(Action::StackOutputs),
        2 => Just(Action::Invalidate),
        1 => Just(Action::Validate),
        1 => (index(), index()).prop_map(|(which, length)| Action::Save(which, length)),
        1 => Just(Action::Crash),
        1 => Just(Action::Checkpoint),
        2 => revisions(),
    ]
}

fn steps() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (targets(), changes()).prop_map(|(target, change)| Action::Same(target, change)),
        1 => targets().prop_map(Action::Replace),
        2 => (targets(), option::of(changes())).prop_map(|(target, change)| Action::Refresh(target, change)),
        1 => targets().prop_map(Action::RemovePendingReplace),
        1 => (targets(), 0..4_u8).prop_map(|(target, size)| Action::Outputs(target, size)),
    ]
}

fn revisions() -> impl Strategy<Value = Action> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Action::Restore),
        (index(), index(), any::<u8>())
            .prop_map(|(which, length, serial)| Action::Import(which, length, serial)),
        (index(), index()).prop_map(|(which, length)| Action::Write(which, length)),
        index().prop_map(Action::Forget),
    ]
}

fn intentions() -> impl Strategy<Value = Intention> {
    let making = (
        select(vec![Op::Create, Op::Create, Op::Import, Op::Read]),
        new_targets(),
    );
    let changing = (
        select(vec![Op::Create, Op::Update, Op::Update, Op::Read]),
        targets(),
    );
    let removing = (
        select(vec![Op::Delete, Op::Delete, Op::Discard]),
        prop_oneof![1 => targets(), 2 => Just(Target::Last), 1 => Just(Target::Leftover)],
    );
    let senseless = (select(Op::ALL.to_vec()), targets());
    let aims = prop_oneof![8 => making, 5 => changing, 5 => removing, 1 => senseless];
    let odd = || prop::bool::weighted(0.04);
    (aims, changes(), odd(), prop::bool::weighted(0.2), odd()).prop_map(
        |((op, target), change, contrary, tombstone, misfit)| Intention {
            op,
            target,
            change,
            contrary,
            tombstone: tombstone && matches!(op, Op::Delete | Op::Discard),
            misfit,
        },
    )
}

fn new_targets() -> impl Strategy<Value = Target> {
    (0..NAMES).prop_map(Target::Name)
}

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => Just(Target::Next),
        4 => any::<Index>().prop_map(Target::Any),
        2 => Just(Target::Leftover),
        1 => Just(Target::Last),
        1 => new_targets(),
    ]
}

fn reports() -> impl Strategy<Value = Report> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Succeeded),
        2 => Just(Outcome::Partial),
        1 => Just(Outcome::Failed),
    ];
    (
        outcome,
        option::weighted(0.3, changes()),
        prop::bool::weighted(0.04),
    )
        .prop_map(|(outcome, change, misfit)| Report {
            outcome,
            change,
            misfit,
        })
}

fn changes() -> impl Strategy<Value = Change> {
    let uid = prop_oneof![
        10 => Just(Identity::Kept),
        3 => Just(Identity::New),
        1 => Just(Identity::Missing),
        1 => any::<Index>().prop_map(Identity::Stolen),
    ];
    let links = option::weighted(0.5, vec(links(), 0..4));
    let group = option::weighted(0.2, option::weighted(0.7, 0..2_u8));
    let rarely = || prop::bool::weighted(0.05);
    let marks = (rarely(), rarely(), rarely(), prop::bool::weighted(0.02));
    (links, group, uid, option::weighted(0.4, 0..3_u8), 0..3_u8, marks).prop_map(
        |(links, group, uid, id, size, (protect, pending_replacement, external, kindless))| Change {
            links,
            group,
            uid,
            id,
            size,
            protect,
            pending_replacement,
            external,
            kindless,
        },
    )
}

fn links() -> impl Strategy<Value = Link> {
    let id = option::of(prop_oneof![4 => Just(Ok(())), 1 => (0..3_u8).prop_map(Err)]);
    let field = prop_oneof![
        4 => Just(Field::DependsOn),
        2 => (0..2_u8).prop_map(Field::Property),
        2 => Just(Field::Parent),
        3 => id.prop_map(Field::Provider),
        1 => Just(Field::DeletedWith),
        1 => Just(Field::ReplaceWith),
    ];
    let to = prop_oneof![
        16 => any::<Index>().prop_map(To::Recorded),
        1 => any::<Index>().prop_map(To::Any),
        1 => (0..NAMES).prop_map(To::Name),
        1 => (0..2_u8).prop_map(To::Group),
    ];
    (field, to).prop_map(|(field, to)| Link { field, to })
}

fn hands() -> impl Strategy<Value = Hand> {
    prop_oneof![
        targets().prop_map(Hand::Remove),
        (targets(), changes(), option::weighted(0.3, 0..NAMES))
            .prop_map(|(target, change, name)| Hand::Put(target, change, name)),
        (0..NAMES, changes()).prop_map(|(name, change)| Hand::Append(name, change)),
    ]
}

fn results() -> impl Strategy<Value = UpdateResult> {
    prop_oneof![Just(UpdateResult::Succeeded), Just(UpdateResult::Failed)]
}

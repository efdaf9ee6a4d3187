//! Forged epochs in the head. An epoch counts the takeovers of the writer lock, and a new writer fences the old writer
//! by a higher epoch. After a forged epoch near the maximum, no higher epoch would be left, so clients must refuse an
//! epoch that no sequence of takeovers leads to.

use super::{Command, Kind, Scenario, forge};
use crate::store::block_on;
use state_core::head::SealingPolicy;
use state_core::testkit::hostile::Intervention;
use state_core::{Epoch, ErrorKind, Head};

#[test]
fn forged_epoch_is_refused_and_not_raised_further() {
    block_on(async {
        let jumps = [
            u64::MAX,
            Epoch::MAX.get() + 1,
            Epoch::MAX.get(),
            Epoch::MAX_STEP + 100,
        ];
        for kind in [Kind::Files, Kind::Objects] {
            for policy in [SealingPolicy::Plaintext, SealingPolicy::All] {
                let scenario = Scenario::build(kind, policy).await.unwrap();
                let honest = scenario.run(Command::Read, Vec::new()).await;
                let objects = honest.attacker.objects().into_iter();
                let head = objects
                    .into_iter()
                    .find(|object| object.ends_with("head.json"))
                    .expect("a head");
                for epoch in jumps {
                    for command in [Command::Read, Command::Append] {
                        let action = forge::<Head>("an epoch", move |head| head.epoch = Epoch(epoch));
                        let plan = vec![Intervention::new(0, head.clone(), action)];
                        let outcome = scenario.run(command, plan).await;
                        let context = format!("{kind:?}, {policy:?}, {command:?}, epoch {epoch}");
                        let refused = outcome.shown.expect_err(&context);
                        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{context}: {refused}");
                        // The command wrote no other head, so the next reader refuses the forged head too.
                        let left = outcome.left.expect_err(&context);
                        assert_eq!(left.kind(), ErrorKind::Corrupt, "{context}: {left}");
                    }
                }
            }
        }
    });
}

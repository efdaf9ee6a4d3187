//! Promise P2 of `docs/architecture.md` on a real object store: a process that was suspended until its lease expired is
//! fenced when it resumes.

use super::{server, unique_url};
use crate::crash::Model;
use crate::race::{Steps, hold, write};
use crate::store::{block_on, content, stack, verify};
use state_tests::line::Line;
use std::path::PathBuf;
use std::time::Duration;

/// The shortest lease that a URL can set, in seconds.
const LEASE: u32 = 8;

#[test]
fn writer_suspended_past_its_lease_is_fenced() {
    let Some(server) = server("STATE_TEST_S3_URL") else {
        return;
    };
    let url = format!("{}&lease={LEASE}", unique_url(&server));
    let path = PathBuf::from(&url);
    block_on(async {
        stack(&path).await.expect("a new stack");
        let worker = hold(&path, 7);
        let (mut model, mut steps) = (Model::default(), Steps::default());
        let first = worker.read_until(|line| matches!(line, Line::Acked(_)));
        worker.stop();
        for line in first.into_iter().chain(worker.lines_so_far()) {
            model.observe(&line);
            steps.observe(&line);
        }
        let stack = stack(&path).await.expect("the stack opens");
        stack.lock("second").await.expect_err("the lease hasn't expired");
        let waited = stack.lock_within("second", Duration::from_secs(60)).await;
        let session = waited.expect("a lease that isn't renewed expires");
        let taken_over = session.state();
        model.settle(&taken_over, &url);
        write(&session, "before").await;
        let before = content(&session.state());

        worker.wake();
        let (succeeded, late) = worker.end();
        assert!(!succeeded, "a fenced writer must fail");
        steps.check_late_lines(&late, &taken_over, &url);
        let tip = stack.tip().await.expect("the tip can be read");
        assert!(
            content(&tip.state) == before,
            "a late write of the fenced writer must not be visible"
        );
        write(&session, "after").await;
        session.close().await.expect("the session closes");
        verify(&stack).await;
    });
}

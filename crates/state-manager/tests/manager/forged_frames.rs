//! Frames that an attacker with write access to the store puts in the place of the frames of a sealed stack: every data
//! frame needs a tag, from the first one under the first data key on.

use super::*;
use state_core::backend::{CopyTarget, ObjectKind, Tail};
use state_core::journal::{Frame, FrameKind};
use state_core::{Backend, Base, ErrorKind, Slot};
use state_encrypt::generate_identity;

/// A copy of the store, in which `forge` replaced the last frame of the journal. The function gets that frame and the
/// chain digest before it.
async fn forged(
    store: &MemoryBackend,
    stack: &Stack,
    forge: impl FnOnce(&Frame, Tail) -> Frame,
) -> MemoryBackend {
    let mut view = store.read_journal(stack.lineage(), None).await.unwrap();
    let empty = Base::empty(stack.lineage());
    let start = Tail {
        next: Slot::ZERO,
        chain: empty.chain,
    };
    let last = view.frames.pop().unwrap();
    let before = view.frames.last().map_or(start, Tail::after);
    view.frames.push(forge(&last, before));

    let copy = MemoryBackend::default();
    for name in store.list(stack.lineage(), ObjectKind::Key).await.unwrap() {
        let bytes = store.read(stack.lineage(), &name).await.unwrap();
        copy.adopt_object(stack.lineage(), &name, bytes).await.unwrap();
    }
    copy.adopt_stack(&view.head, start, &view.frames).await.unwrap();
    let pointer = store.read_name(stack.name()).await.unwrap().unwrap();
    copy.swap_name(stack.name(), None, &pointer).await.unwrap();
    copy
}

/// The attacker has no data key, so that the forged frame has no tag.
#[tokio::test]
async fn first_frame_under_the_first_key_needs_a_tag() {
    let (store, anna) = (MemoryBackend::default(), generate_identity());
    let stack = stacks(&store, 1)
        .with_keys(keys(1, &anna))
        .new_stack(&"shop".parse().unwrap())
        .await
        .unwrap();
    let session = stack.lock("deploy").await.unwrap();
    let _update = start(&session).await;
    // The writer crashes before the close, whose watermark would cover the frame as well.
    std::mem::forget(session);

    let honest = forged(&store, &stack, |last, _| last.clone()).await;
    let untagged = forged(&store, &stack, |last, before| {
        let text = String::from_utf8(last.payload().to_vec()).unwrap();
        let changed = text.replace("ana", "eve");
        assert_ne!(changed, text);
        let (kind, slot) = (FrameKind::Data, last.slot());
        Frame::new(
            kind,
            last.epoch(),
            slot,
            last.nonce(),
            changed.as_bytes(),
            &before.chain,
        )
        .unwrap()
    })
    .await;
    let head = honest.read_head(stack.lineage()).await.unwrap();
    let frames = honest.read_journal(stack.lineage(), None).await.unwrap().frames;
    assert_eq!(head.keys.unwrap().since, frames.last().unwrap().slot());
    let open = async |store: &MemoryBackend| {
        let stacks = stacks(store, 2).with_keys(keys(2, &anna));
        stacks.get(stack.name()).await?.unwrap().tip().await
    };
    assert!(open(&honest).await.unwrap().state.update().is_some());
    let refused = open(&untagged).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Sealed, "{refused}");
}

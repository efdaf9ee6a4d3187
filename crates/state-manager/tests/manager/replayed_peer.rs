//! Settling a move reads the state of the other stack. Here an attacker replaces that stack by an older copy or by a
//! forgery: the moved resource must not be lost.

use super::*;
use state_core::edits::{MovePlan, MoveRequest};
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::MemoryKnownStacks;
use state_manager::state_backend_fs::FsBackend;
use std::path::{Path, PathBuf};

/// Two sealed stacks in a store of files. The move of `a` from `alpha` to `beta` failed right after it was committed.
struct HalfMoved {
    folder: tempfile::TempDir,
    anna: GeneratedIdentity,
    /// Copy of beta from before the move.
    older: PathBuf,
    /// Folder of beta in the store.
    beta: PathBuf,
}

impl HalfMoved {
    async fn new(memory: &Arc<MemoryKnownStacks>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let anna = generate_identity();
        let store = folder.path().join("store");
        let (backend, plan) = faulty(&store, true);
        let stacks = Stacks::new(Arc::new(backend), environment(1))
            .with_keys(keys(1, &anna))
            .with_known_stacks(memory.clone());
        let beta = stacks.new_stack(&"beta".parse().unwrap()).await.unwrap();
        let alpha = stacks.new_stack(&"alpha".parse().unwrap()).await.unwrap();
        deploy(&alpha, &["a", "b"]).await;
        deploy(&beta, &["z"]).await;
        let place = store.join("stacks").join(beta.lineage().to_string());
        let older = folder.path().join("older");
        copy_folder(&place, &older);

        let (from, to) = Stacks::lock_both(&alpha, &beta, async |stack| stack.lock("mv").await)
            .await
            .unwrap();
        let request = MoveRequest {
            addresses: vec![address("a")],
            ..MoveRequest::default()
        };
        let moved = MovePlan::new(&from.state(), &to.state(), &request).unwrap();
        // The first append records `a` as incoming in beta, the second one removes it from alpha and commits the move.
        // The third one, which would add it to beta, fails.
        plan.fail(Operation::Append, 2, Fault::BeforeEffect);
        let request = UpdateRequest::new(UpdateKind::Edit);
        from.move_to(&to, request, &moved).await.unwrap_err();
        drop((from.close().await, to.close().await));
        Self {
            folder,
            anna,
            older,
            beta: place,
        }
    }

    /// Alpha and beta in a new process.
    async fn stacks(&self, memory: &Arc<MemoryKnownStacks>) -> [Stack; 2] {
        let (backend, _) = faulty(&self.folder.path().join("store"), false);
        let stacks = Stacks::new(Arc::new(backend), environment(2))
            .with_keys(keys(2, &self.anna))
            .with_known_stacks(memory.clone());
        let get = async |name: &str| stacks.get(&name.parse().unwrap()).await.unwrap().unwrap();
        [get("alpha").await, get("beta").await]
    }

    /// Replaces beta by the folder `forged` during one deployment to alpha, and restores beta afterwards.
    async fn attack(&self, forged: &Path, memory: &Arc<MemoryKnownStacks>) {
        let [alpha, _] = self.stacks(memory).await;
        let aside = self.folder.path().join("aside");
        std::fs::rename(&self.beta, &aside).unwrap();
        copy_folder(forged, &self.beta);
        deploy(&alpha, &["c"]).await;
        std::fs::remove_dir_all(&self.beta).unwrap();
        std::fs::rename(&aside, &self.beta).unwrap();
    }

    /// Requires that the next deployments settle the move, with `a` in beta only.
    async fn ends_whole(&self, memory: &Arc<MemoryKnownStacks>) {
        let [alpha, beta] = self.stacks(memory).await;
        deploy(&beta, &["y"]).await;
        deploy(&alpha, &["d"]).await;
        let sorted = async |stack: &Stack| {
            let mut names = names(stack).await;
            names.sort();
            names
        };
        assert_eq!(sorted(&alpha).await, ["b", "c", "d"]);
        assert_eq!(sorted(&beta).await, ["a", "y", "z"]);
        assert_eq!(alpha.tip().await.unwrap().state.departed().count(), 0);
    }
}

/// Creates or opens a store of files whose calls fail as the returned plan says.
fn faulty(store: &Path, new: bool) -> (FaultyBackend, FaultPlan) {
    let backend = match new {
        true => FsBackend::create(store),
        false => FsBackend::open(store),
    };
    let backend = FaultyBackend::new(Arc::new(backend.unwrap()));
    let plan = backend.plan();
    (backend, plan)
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_folder(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn replayed_destination_never_confirms_a_move() {
    let known: Arc<MemoryKnownStacks> = Arc::default();
    let half = HalfMoved::new(&known).await;
    half.attack(&half.older, &known).await;
    half.ends_whole(&known).await;

    // A client without pins can't detect the replay. It must not lose `a` because the older state has no record of the
    // move.
    let half = HalfMoved::new(&Arc::default()).await;
    half.attack(&half.older, &Arc::default()).await;
    half.ends_whole(&Arc::default()).await;
}

#[tokio::test]
async fn forged_plain_destination_never_confirms_a_move() {
    let half = HalfMoved::new(&Arc::default()).await;
    // Lineages are generated from the seed, so the first stack of this store gets the lineage of beta.
    let other = half.folder.path().join("other");
    let (backend, _) = faulty(&other, true);
    let stacks = Stacks::new(Arc::new(backend), environment(1));
    let forged = stacks
        .new_stack_with(&"beta".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    let place = other.join("stacks").join(forged.lineage().to_string());
    assert_eq!(place.file_name(), half.beta.file_name());
    deploy(&forged, &["z"]).await;
    let memory: Arc<MemoryKnownStacks> = Arc::default();
    half.attack(&place, &memory).await;
    half.ends_whole(&memory).await;
}

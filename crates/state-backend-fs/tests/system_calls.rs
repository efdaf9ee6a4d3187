//! The order of the real system calls of one session, as `strace` reports them. The simulated disk shows that the store asks for
//! the right syncs; only the trace shows that the kernel is asked for them, too.

#![expect(clippy::unwrap_used, reason = "a session that can't go on fails its test")]

use bytes::Bytes;
use state_backend_fs::FsBackend;
use state_core::backend::{Acquire, Holder, NamePointer, NameTarget, ObjectName, Tail};
use state_core::journal::FrameKind;
use state_core::testkit::run::skip;
use state_core::{Backend, Frame, Head, Lineage, Nonce, Serial};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the store in which the traced process runs the session.
const STORE: &str = "STATE_TRACED_STORE";

/// The calls that change files, make changes durable, or acknowledge.
const TRACED: &str = "trace=write,pwrite64,writev,pwritev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlinkat,mkdir,\
                      mkdirat";

/// Number of appends: too few for preallocated space, which is written after an acknowledgement.
const APPENDS: u8 = 5;

#[test]
fn syncs_reach_the_kernel_before_acknowledgements() {
    if let Some(store) = std::env::var_os(STORE) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        return runtime.block_on(session(Path::new(&store)));
    }
    let folder = tempfile::tempdir().unwrap();
    FsBackend::create(folder.path().join("store")).unwrap();
    let Some(log) = trace(folder.path()) else {
        skip(
            "strace",
            "the order of writes, syncs and acknowledgements of a session",
        );
        return;
    };
    let store = format!("{}/store", folder.path().display());
    let mut order = Order::new(store);
    for call in calls(&log) {
        order.observe(&call);
    }
    assert_eq!(order.appended, usize::from(APPENDS) + 1, "{order:?}");
    assert!(order.acknowledged > order.appended + 5, "{order:?}");
    assert!(order.renamed >= 6, "{order:?}");
}

/// Runs the session in this test binary under `strace`; `None` if that isn't installed.
fn trace(folder: &Path) -> Option<String> {
    let log = folder.join("trace");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-y", "-s", "16", "-e", TRACED, "-o"])
        .arg(&log);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "syncs_reach_the_kernel_before_acknowledgements"]);
    command.env(STORE, folder.join("store")).stdout(Stdio::null());
    match command.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        status => {
            assert!(status.unwrap().success(), "the traced session failed");
            Some(String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned())
        }
    }
}

fn nonce(number: u8) -> Nonce {
    Nonce::from_bits([number; 16])
}

/// Acknowledges what was done so far. The test harness doesn't capture this call.
fn acknowledge(what: &str) {
    std::io::stdout()
        .write_all(format!("done: {what}\n").as_bytes())
        .unwrap();
}

/// One session that uses every way of writing.
async fn session(path: &Path) {
    let store = FsBackend::open(path).unwrap();
    let head = Head::new(Lineage::from_bits([7; 16]), "shop/web".parse().unwrap(), nonce(0));
    store.create_stack(&head).await.unwrap();
    acknowledge("stack");
    let pointer = NamePointer::new(head.name.clone(), NameTarget::Lineage(head.lineage), nonce(1));
    store.swap_name(&pointer.name, None, &pointer).await.unwrap();
    acknowledge("name");
    let request = Acquire {
        holder: Holder::new("a session", "host", 42, "update", None),
        break_epoch: None,
        head_nonce: nonce(2),
        fence_nonce: nonce(3),
    };
    let owner = store.acquire(head.lineage, &request).await.unwrap();
    acknowledge("lock");
    let mut tail = owner.tail;
    for number in 0..=APPENDS {
        if number == APPENDS {
            tail = owner.writer.rotate(tail, nonce(4)).await.unwrap();
            acknowledge("segment");
        }
        let payload = [b'a' + number; 100];
        let epoch = owner.writer.epoch();
        let frame = Frame::new(FrameKind::Data, epoch, tail.next, nonce(5), &payload, &tail.chain).unwrap();
        owner.writer.append(&frame).await.unwrap();
        acknowledge("append");
        tail = Tail::after(&frame);
    }
    let outputs = ObjectName::Outputs(Serial(1));
    let bytes = Bytes::from_static(b"the outputs of the stack");
    owner.writer.create(&outputs, bytes).await.unwrap();
    acknowledge("object");
    let change = |head: &mut Head| {
        head.copied_from = Some("elsewhere".to_owned());
        Ok(())
    };
    owner.writer.swap_head(nonce(6), &change).await.unwrap();
    acknowledge("head");
    let names = [state_core::backend::StoredItemName::Object(outputs)];
    owner.writer.delete(&names).await.unwrap();
    acknowledge("deletion");
}

/// The finished calls in a log of `strace`, in the order in which they ended. An acknowledgement counts from its begin.
fn calls(log: &str) -> Vec<String> {
    let (mut unfinished, mut calls) = (Vec::<(String, String)>::new(), Vec::new());
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        if let Some(begin) = call.strip_suffix(" <unfinished ...>") {
            match begin.starts_with("write(1<") {
                true => calls.push(begin.to_owned()),
                false => unfinished.push((thread.to_owned(), begin.to_owned())),
            }
        } else if let Some((_, end)) = call.split_once("resumed>") {
            let begun = unfinished.iter().position(|(of, _)| of == thread);
            calls.extend(begun.map(|at| unfinished.swap_remove(at).1 + end));
        } else {
            calls.push(call.to_owned());
        }
    }
    calls
}

/// What a loss of power would undo, from the calls so far.
#[derive(Debug)]
struct Order {
    store: String,
    /// Files with content, and folders with names, that weren't synced.
    unsynced: BTreeSet<String>,
    /// Whether the data of a segment was synced since the last acknowledgement.
    is_journal_synced: bool,
    acknowledged: usize,
    appended: usize,
    renamed: usize,
}

impl Order {
    fn new(store: String) -> Self {
        Self {
            store,
            unsynced: BTreeSet::new(),
            is_journal_synced: false,
            acknowledged: 0,
            appended: 0,
            renamed: 0,
        }
    }

    fn observe(&mut self, call: &str) {
        let Some((name, arguments)) = call.split_once('(') else {
            return;
        };
        if name == "write" && arguments.starts_with("1<") {
            if arguments.contains("\"done: ") {
                self.acknowledge(arguments);
            }
            return;
        }
        // The paths of the file descriptors among the arguments.
        let paths = arguments.split('<').skip(1);
        let paths: Vec<&str> = paths.filter_map(|rest| Some(rest.split_once('>')?.0)).collect();
        let Some(path) = paths.first().filter(|path| path.starts_with(&self.store)) else {
            return;
        };
        if call.contains(") = -1 ") {
            return;
        }
        match name {
            "fsync" | "fdatasync" => {
                self.unsynced.remove(*path);
                self.is_journal_synced |= name == "fdatasync" && path.ends_with(".log");
            }
            _ if name.starts_with("rename") || name.starts_with("link") => {
                let from = arguments.split('"').nth(1).unwrap();
                let staged = format!("{path}/{from}");
                assert!(
                    !self.unsynced.contains(&staged),
                    "named before it is synced: {call}"
                );
                self.unsynced.insert(paths[1].to_owned());
                self.renamed += 1;
            }
            _ if is_hint(path) => {}
            _ => drop(self.unsynced.insert((*path).to_owned())),
        }
    }

    fn acknowledge(&mut self, what: &str) {
        assert!(
            self.unsynced.is_empty(),
            "{what} before the sync of {:?}",
            self.unsynced
        );
        if what.contains("append") {
            assert!(self.is_journal_synced, "{what} without a sync of the journal");
            self.appended += 1;
        }
        self.is_journal_synced = false;
        self.acknowledged += 1;
    }
}

/// Whether a file only says who holds a lock, which the kernel frees with the process.
fn is_hint(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.ends_with(".lock") || name.starts_with("lock.")
}

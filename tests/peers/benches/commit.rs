//! Compares the commit of a mutation with other ways to make the same bytes durable:
//! `cargo bench --manifest-path tests/peers/Cargo.toml`.
//!
//! - One writer: each contender makes 100 commits in a round, each with one sync, one after the other. The order of the
//!   contenders rotates from round to round. Ours is a session on a store of files: half of its commits begin a step, the
//!   other half end one, with the whole way through the queue and the thread of the journal.
//! - Group commit: 8 and 64 callers commit at the same time. The raw log lets one caller sync for all that wait
//!   (leader and followers).
//!
//! A commit of a peer has as many bytes as one of ours has on average, and all bytes are new in each commit. Each figure is
//! the median of the rounds, with the range; a ratio is computed in each round. The files lie in the folder for temporary
//! files: set `TMPDIR` to a folder on the disk to measure.

use state_peers::ours::Ours;
use state_peers::peers::{Bytes, GROWING, PREALLOCATED};
use state_peers::{group, peers};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 20;
const COMMITS: usize = 100;
/// The callers that commit at the same time.
const GROUPS: [usize; 2] = [8, 64];

const OURS: &str = "ours";

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut ours = Ours::create(&folder.path().join("ours"));
    let size = ours.bytes_of_a_commit();
    println!("a commit has {size} bytes; {COMMITS} commits a round, {ROUNDS} rounds");
    one_writer(folder.path(), &mut ours, size);
    for callers in GROUPS {
        together(folder.path(), &mut ours, size, callers);
    }
    ours.close();
}

fn one_writer(folder: &Path, ours: &mut Ours, size: usize) {
    let mut peers = peers::all(folder, COMMITS * ROUNDS * size);
    let mut bytes = Bytes::new(size);
    let mut times = Times::default();
    for round in 0..ROUNDS {
        for turn in 0..=peers.len() {
            let at = (turn + round) % (peers.len() + 1);
            let start = Instant::now();
            let name = match peers.get_mut(at) {
                None => {
                    ours.commit(COMMITS);
                    OURS
                }
                Some((name, peer)) => {
                    (0..COMMITS).for_each(|_| peer.commit(bytes.next()));
                    name
                }
            };
            times.add(name, start.elapsed());
        }
    }
    println!("\none writer, microseconds a commit:");
    times.print_each(COMMITS);
    for (peer, limit) in [(GROWING, "1.0"), (PREALLOCATED, "1.3")] {
        let ratio = times.ratio(OURS, peer);
        println!("  time of ours / {peer}: {ratio} (at most {limit})");
    }
}

fn together(folder: &Path, ours: &mut Ours, size: usize, callers: usize) {
    let folder = folder.join(callers.to_string());
    std::fs::create_dir(&folder).expect("a new folder");
    let peers = group::all(&folder);
    let mut times = Times::default();
    for round in 0..ROUNDS {
        for turn in 0..=peers.len() {
            let at = (turn + round) % (peers.len() + 1);
            match peers.get(at) {
                None => times.add(OURS, ours.commit_together(callers, COMMITS)),
                Some((name, peer)) => times.add(name, group::measure(&**peer, callers, COMMITS, size)),
            }
        }
    }
    let limit = if callers < 64 { "0.9" } else { "1.0" };
    println!("\n{callers} callers, microseconds a commit:");
    times.print_each(callers * COMMITS);
    let ratio = times.ratio(group::RAW, OURS);
    println!(
        "  throughput of ours / {}: {ratio} (at least {limit})",
        group::RAW
    );
}

/// The times of the rounds of each contender.
#[derive(Default)]
struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    fn add(&mut self, name: &'static str, time: Duration) {
        self.0.entry(name).or_default().push(time);
    }

    fn print_each(&self, commits: usize) {
        for (name, times) in &self.0 {
            let each = times.iter().map(|time| time.as_secs_f64() * 1e6 / commits as f64);
            println!("  {name}: {}", summary(each.collect(), 1));
        }
    }

    /// The time of one contender divided by that of another, round by round.
    fn ratio(&self, one: &str, other: &str) -> String {
        let rounds = self.0[one].iter().zip(&self.0[other]);
        let ratios = rounds.map(|(one, other)| one.as_secs_f64() / other.as_secs_f64());
        summary(ratios.collect(), 2)
    }
}

/// The median of the values and their range.
fn summary(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})")
}

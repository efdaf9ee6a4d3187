//! Deaths of processes, and power losses with any part of what wasn't synced.

use super::state::{Files, Phase, Reader, State};

/// The end of one process, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A writer is killed; the system frees its locks.
    Death(u8),
    /// The power fails, for all processes at once.
    PowerLoss {
        /// Whether the head has its new content, if its name wasn't synced.
        keeps_head: bool,
        /// The segments that keep their unsynced names and frames, as bits in the order of the segments.
        keeps_segments: u32,
        /// The content of the compaction's file.
        compaction: Remains,
    },
}

/// What a power loss leaves of a file that is never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// The content as it was last written.
    Last,
    /// The content before the last change.
    Older,
    /// No content that has a digest in any head.
    Nothing,
}

impl Crash {
    /// Adds the crashes that may happen next.
    pub fn next(model: &Files, state: &State, add: &mut impl FnMut(Self)) {
        if state.count.deaths < model.deaths {
            let alive = (0..)
                .zip(&state.writers)
                .filter(|(_, writer)| writer.phase != Phase::Idle);
            alive.for_each(|(at, _)| add(Self::Death(at)));
        }
        if state.count.power_losses < model.power_losses {
            power_losses(state, add);
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, state: &mut State) {
        match self {
            Self::Death(at) => {
                state.count.deaths += 1;
                state.stop(usize::from(at));
            }
            Self::PowerLoss {
                keeps_head,
                keeps_segments,
                compaction,
            } => {
                lose_power(state, keeps_head, keeps_segments);
                state.disk.compaction = match compaction {
                    Remains::Last => state.disk.compaction,
                    Remains::Older => state.disk.older_compaction,
                    Remains::Nothing => None,
                };
                state.disk.older_compaction = None;
            }
        }
    }
}

fn power_losses(state: &State, add: &mut impl FnMut(Crash)) {
    let disk = &state.disk;
    let is_in_doubt = |at: &usize| {
        let segment = &disk.segments[*at];
        !segment.is_named || segment.synced < segment.length()
    };
    let in_doubt: Vec<usize> = (0..disk.segments.len()).filter(is_in_doubt).collect();
    let heads: &[bool] = match disk.head == disk.durable_head {
        true => &[true],
        false => &[true, false],
    };
    let compactions: &[Remains] = match disk.compaction {
        None => &[Remains::Last],
        Some(_) => &[Remains::Last, Remains::Older, Remains::Nothing],
    };
    for choice in 0..1_u32 << in_doubt.len() {
        let kept = in_doubt
            .iter()
            .enumerate()
            .filter(|(bit, _)| choice & 1 << bit != 0);
        let keeps_segments = kept.fold(0, |all, (_, at)| all | 1 << at);
        for (keeps_head, compaction) in heads
            .iter()
            .flat_map(|head| compactions.iter().map(move |file| (*head, *file)))
        {
            add(Crash::PowerLoss {
                keeps_head,
                keeps_segments,
                compaction,
            });
        }
    }
}

fn lose_power(state: &mut State, keeps_head: bool, keeps_segments: u32) {
    state.count.power_losses += 1;
    let disk = &mut state.disk;
    if !keeps_head {
        disk.head = disk.durable_head;
    }
    disk.sync_head();
    let mut at = 0;
    disk.segments.retain_mut(|segment| {
        let keeps = keeps_segments & 1 << at != 0;
        at += 1;
        if !keeps {
            segment.frames.truncate(usize::from(segment.synced));
        }
        let remains = keeps || segment.is_named;
        segment.dropped = false;
        segment.is_named = true;
        segment.sync();
        remains
    });
    for writer in 0..state.writers.len() {
        state.stop(writer);
    }
    let disk = &mut state.disk;
    disk.head_lock = None;
    disk.locks = Default::default();
    state.reader = Reader {
        reads: state.reader.reads,
        ..Reader::default()
    };
}

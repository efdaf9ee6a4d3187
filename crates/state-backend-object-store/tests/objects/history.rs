//! Histories of one value that processes read and replace, checked for linearizability: each read and write takes effect
//! at one moment between its call and its return.
//!
//! Every written value is unique, so the check is that of Gibbons and Korach ("Testing shared memories", 1997): the
//! operations of one value (its write and its reads) form a zone between their first return and their last call. Two
//! zones in which the value must have been present must not overlap, and no value may come and go inside of another's.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// When an operation was called, or returned. No two moments are equal.
pub(crate) type Moment = u64;

/// The moment at which an operation without an answer returned.
pub(crate) const NEVER: Moment = Moment::MAX;

/// All operations on a value of type `T`.
#[derive(Debug)]
pub(crate) struct History<T> {
    now: AtomicU64,
    operations: Mutex<Vec<Operation<T>>>,
}

#[derive(Clone, Debug)]
struct Operation<T> {
    value: T,
    is_write: bool,
    called: Moment,
    returned: Moment,
}

/// A write that has been called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write(usize);

impl<T: Ord + Clone + Debug + Default> History<T> {
    /// Creates a history in which the default value is present.
    pub(crate) fn new() -> Self {
        Self {
            now: AtomicU64::new(0),
            operations: Mutex::default(),
        }
    }

    /// Returns the present moment.
    pub(crate) fn moment(&self) -> Moment {
        1 + self.now.fetch_add(1, Relaxed)
    }

    /// Records the call of a write. Until it has an answer, it may take effect at any time or never.
    pub(crate) fn write(&self, value: T) -> Write {
        let called = self.moment();
        let mut operations = self.operations.lock().unwrap();
        operations.push(Operation {
            value,
            is_write: true,
            called,
            returned: NEVER,
        });
        Write(operations.len() - 1)
    }

    /// Records that a write was acknowledged.
    pub(crate) fn acknowledge(&self, write: Write) {
        let returned = self.moment();
        self.operations.lock().unwrap()[write.0].returned = returned;
    }

    /// Records a read that was called at a moment and has returned a value now.
    pub(crate) fn read(&self, called: Moment, value: T) {
        let returned = self.moment();
        self.operations.lock().unwrap().push(Operation {
            value,
            is_write: false,
            called,
            returned,
        });
    }

    /// Returns a description of what no order of the operations explains; `None` if the history is linearizable.
    pub(crate) fn violation(&self) -> Option<String> {
        let operations = self.operations.lock().unwrap();
        let mut zones = BTreeMap::from([(T::default(), Zone::written(0, 0))]);
        for write in operations.iter().filter(|one| one.is_write) {
            zones.insert(write.value.clone(), Zone::written(write.called, write.returned));
        }
        for read in operations.iter().filter(|one| !one.is_write) {
            let Some(zone) = zones.get_mut(&read.value) else {
                return Some(format!("{:?} was read, but never written", read.value));
            };
            if read.returned < zone.written {
                return Some(format!("{:?} was read before it was written", read.value));
            }
            zone.is_read = true;
            zone.first_return = zone.first_return.min(read.returned);
            zone.last_call = zone.last_call.max(read.called);
        }
        // A write without an answer that no process read may have had no effect.
        zones.retain(|_, zone| zone.is_read || zone.first_return != NEVER);
        let mut present: Vec<(&T, Range<Moment>)> = zones
            .iter()
            .filter_map(|(value, zone)| Some((value, zone.certain()?)))
            .collect();
        present.sort_by_key(|(_, certain)| certain.start);
        for pair in present.windows(2) {
            if pair[1].1.start < pair[0].1.end {
                return Some(format!(
                    "{:?} and {:?} were present at once",
                    pair[0].0, pair[1].0
                ));
            }
        }
        for (value, zone) in zones.iter().filter(|(_, zone)| zone.certain().is_none()) {
            let before = present.partition_point(|(_, certain)| certain.start < zone.last_call);
            let around = before.checked_sub(1).map(|at| &present[at]);
            if let Some((other, certain)) = around
                && zone.first_return < certain.end
            {
                return Some(format!("{value:?} was present while {other:?} was"));
            }
        }
        None
    }
}

/// Returns two operations of which the second was called after the first had returned, although its position isn't behind
/// the first one's. `operations` are positions with their call and return.
pub(crate) fn out_of_order<P: PartialOrd + Copy>(operations: &[(P, Range<Moment>)]) -> Option<[P; 2]> {
    operations.iter().find_map(|(later, after)| {
        let earlier = operations
            .iter()
            .find(|(earlier, before)| before.end < after.start && earlier >= later);
        earlier.map(|(earlier, _)| [*earlier, *later])
    })
}

/// The operations of one value.
#[derive(Debug)]
struct Zone {
    /// When its write was called.
    written: Moment,
    first_return: Moment,
    last_call: Moment,
    is_read: bool,
}

impl Zone {
    const fn written(called: Moment, returned: Moment) -> Self {
        Self {
            written: called,
            first_return: returned,
            last_call: called,
            is_read: false,
        }
    }

    /// The time during which the value was present for certain.
    fn certain(&self) -> Option<Range<Moment>> {
        (self.first_return < self.last_call).then_some(self.first_return..self.last_call)
    }
}

#[cfg(test)]
mod tests {
    use super::{History, out_of_order};

    #[test]
    fn reads_of_present_values_are_linearizable() {
        let history = History::<u32>::new();
        history.read(history.moment(), 0);
        let early = history.moment();
        let first = history.write(1);
        // A read beside the write may return either value.
        history.read(early, 0);
        history.read(early, 1);
        history.acknowledge(first);
        let unanswered = history.moment();
        history.write(2);
        history.read(unanswered, 1);
        let again = history.moment();
        history.read(again, 2);
        assert_eq!(history.violation(), None);
    }

    #[test]
    fn read_of_a_replaced_value_is_a_violation() {
        let history = History::<u32>::new();
        for value in [1, 2] {
            let write = history.write(value);
            history.acknowledge(write);
        }
        history.read(history.moment(), 1);
        assert!(history.violation().is_some());
    }

    #[test]
    fn later_read_of_an_earlier_value_is_a_violation() {
        let history = History::<u32>::new();
        // No answer tells when the write takes effect, but it does so only once.
        history.write(1);
        history.read(history.moment(), 1);
        history.read(history.moment(), 0);
        assert!(history.violation().is_some());
    }

    #[test]
    fn positions_follow_the_order_of_calls() {
        assert_eq!(out_of_order(&[(2, 1..4), (1, 3..5), (3, 5..6)]), None);
        assert_eq!(out_of_order(&[(2, 1..2), (1, 3..5)]), Some([2, 1]));
        assert_eq!(out_of_order(&[(2, 1..2), (2, 3..5)]), Some([2, 2]));
    }

    #[test]
    fn lost_write_and_read_of_nothing_written_are_violations() {
        let lost = History::<u32>::new();
        let write = lost.write(1);
        lost.acknowledge(write);
        lost.read(lost.moment(), 0);
        assert!(lost.violation().is_some());
        let invented = History::<u32>::new();
        invented.read(invented.moment(), 7);
        assert!(invented.violation().is_some());
    }
}

//! Computes the parts of a large text on two threads, and passes the results on in the order of the parts.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Size of a text in bytes from which two threads work on it. Starting a thread takes longer than a small text.
const LARGE: usize = 4 << 20;

/// The number of results that may wait for an earlier one. It limits the memory, because a result may be large.
const MOST_WAITING: usize = 4;

/// Whether two threads work on a text of this size.
pub(crate) fn needs_two_threads(size: usize) -> bool {
    size >= LARGE && thread::available_parallelism().is_ok_and(|count| count > NonZeroUsize::MIN)
}

/// Calls `work` for each item, on this thread and on another one if `on_two_threads`, and calls `consume` with the results
/// in the order of the items. `items` is advanced by one thread at a time, and only when a thread has nothing to do.
/// `new_state` makes the state that a thread keeps between its items.
pub(crate) fn work_in_order<T: Send, S, R: Send>(
    on_two_threads: bool,
    items: impl Iterator<Item = T> + Send,
    new_state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> R + Sync,
    mut consume: impl FnMut(R),
) {
    let mut state = new_state();
    if !on_two_threads {
        items.for_each(|item| consume(work(&mut state, item)));
        return;
    }
    let items = Mutex::new(items.enumerate());
    // A poisoned lock means that the iterator panicked on the other thread, which ends this one too.
    let next = || items.lock().ok().and_then(|mut items| items.next());
    let (sender, results) = sync_channel(MOST_WAITING);
    let (next, work, new_state) = (&next, &work, &new_state);
    thread::scope(|scope| {
        let other_thread = move || {
            let mut state = new_state();
            while let Some((index, item)) = next() {
                if sender.send((index, work(&mut state, item))).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("state-formats".to_owned());
        // If the system can't start a thread, this one does all the work.
        drop(thread.spawn_scoped(scope, other_thread));
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        loop {
            let item = if waiting.len() < MOST_WAITING {
                next()
            } else {
                None
            };
            let (index, result) = match item {
                Some((index, item)) => (index, work(&mut state, item)),
                None => match results.recv() {
                    Ok(received) => received,
                    // The other thread has ended, and no item is left.
                    Err(_) => return,
                },
            };
            waiting.insert(index, result);
            waiting.extend(results.try_iter());
            while let Some(result) = waiting.remove(&expected) {
                consume(result);
                expected += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::work_in_order;
    use std::time::Duration;

    #[test]
    fn results_keep_the_order_of_the_items() {
        for on_two_threads in [false, true] {
            let mut results = Vec::new();
            let slow = |_: &mut (), item: u64| {
                std::thread::sleep(Duration::from_micros(item % 7 * 50));
                item * 2
            };
            work_in_order(on_two_threads, 0..200, || (), slow, |result| results.push(result));
            assert!(results.into_iter().eq((0..200).map(|item| item * 2)));
        }
    }

    #[test]
    fn each_thread_keeps_its_own_state() {
        let mut counts = Vec::new();
        let count = |count: &mut u64, _| {
            *count += 1;
            *count
        };
        work_in_order(true, 0..100, || 0, count, |count| counts.push(count));
        counts.sort_unstable();
        let first = counts.iter().filter(|count| **count == 1).count();
        assert_eq!(counts.len(), 100);
        assert!((1..=2).contains(&first), "{first} threads worked");
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn panic_of_the_other_thread_is_passed_on() {
        let this = std::thread::current().id();
        let work = |_: &mut (), _| match std::thread::current().id() == this {
            true => std::thread::sleep(Duration::from_millis(1)),
            false => panic!("expected by the test"),
        };
        work_in_order(true, 0..1000, || (), work, |()| ());
    }
}

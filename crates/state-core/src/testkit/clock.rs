//! Deterministic clock and randomness for tests.

use crate::environment::{Clock, Entropy, Timestamp};
use async_trait::async_trait;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// A clock that advances only when a test advances it or a task sleeps. It starts at 2026-01-01T00:00:00Z.
#[derive(Debug, Default)]
pub struct ManualClock {
    elapsed: Mutex<Duration>,
}

impl ManualClock {
    /// Creates a clock at its start time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock by a duration.
    pub fn advance(&self, by: Duration) {
        let mut elapsed = lock(&self.elapsed);
        *elapsed = elapsed.saturating_add(by);
    }

    /// Sets the time since the start. The new time may be before the old one, as when a wall clock is corrected.
    pub fn set(&self, elapsed: Duration) {
        *lock(&self.elapsed) = elapsed;
    }
}

#[async_trait]
impl Clock for ManualClock {
    /// Returns the current time in whole seconds.
    fn now(&self) -> Timestamp {
        let seconds = self.elapsed().as_secs();
        let (year, month, day) = date_after(seconds / DAY);
        let time = seconds % DAY;
        Timestamp::new(format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            time / 3600,
            time / 60 % 60,
            time % 60
        ))
    }

    fn elapsed(&self) -> Duration {
        *lock(&self.elapsed)
    }

    /// Advances the clock by the duration without waiting. Yields once, so that other tasks run first.
    async fn sleep(&self, duration: Duration) {
        let mut yielded = false;
        poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.advance(duration);
    }
}

/// Returns year, month and day for a number of days after 2026-01-01.
fn date_after(mut days: u64) -> (u64, u64, u64) {
    // Every span of 400 years has the same number of days.
    let mut year = 2026 + days / 146_097 * 400;
    days %= 146_097;
    loop {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        for (month, length) in (1..).zip([31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
            if days < length {
                return (year, month, days + 1);
            }
            days -= length;
        }
        year += 1;
    }
}

/// Deterministic randomness (SplitMix64): the same seed yields the same bits. For tests only.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// Creates a generator with a seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(seed),
        }
    }

    /// Restarts the generator with another seed.
    pub fn reseed(&self, seed: u64) {
        *lock(&self.state) = seed;
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = lock(&self.state);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_follows_the_calendar() {
        let clock = ManualClock::new();
        for (days, date) in [
            (0, "2026-01-01"),
            (58, "2026-02-28"),
            (59, "2026-03-01"),
            (365, "2027-01-01"),
            (2 * 365 + 59, "2028-02-29"),
            (146_097, "2426-01-01"),
        ] {
            clock.set(Duration::from_secs(days * DAY + 3723));
            assert_eq!(clock.now().as_str(), format!("{date}T01:02:03Z"));
        }
        clock.advance(Duration::from_secs(57));
        assert!(clock.now().as_str().ends_with("T01:03:00Z"));
    }

    #[test]
    fn seeded_entropy_depends_only_on_its_seed() {
        let draw = |seed| SeededEntropy::new(seed).bits();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let entropy = SeededEntropy::new(7);
        assert_ne!(entropy.bits(), entropy.bits());
        entropy.reseed(8);
        assert_eq!(entropy.bits(), draw(8));
    }
}

//! Determines which revisions a retention keeps, and when a grace period has passed.

use state_core::{Error, Result, Timestamp};
use std::time::Duration;

/// How much of the history is kept, and how long readers that began before a drop can still read dropped revisions. A
/// revision is kept if it is young enough *or* among the last ones; the current revision is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Age up to which revisions are kept. Default: 30 days.
    pub keep_for: Duration,
    /// Number of latest revisions that are kept. Default: 100.
    pub keep_last: usize,
    /// Minimum time between the drop of a revision and the deletion of its objects. With zero, a reader that is active
    /// during the collection may fail with `Collected`. Default: 24 hours.
    pub grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            keep_for: 30 * day,
            keep_last: 100,
            grace: day,
        }
    }
}

/// The index of the oldest revision that is kept; the length of `made` if none is kept. `made` contains the time of
/// each revision, oldest first, or `None` for an unknown time. `current` is the index of the current revision, if there
/// is one.
///
/// All revisions after a kept one are kept too. A revision of unknown age is assumed to be as young as the next one
/// with a known age, and is kept if there is no such revision: a collection keeps too many revisions rather than too
/// few.
///
/// # Errors
/// `Invalid` if `now` isn't a timestamp.
pub(super) fn oldest_kept(
    made: &[Option<&Timestamp>],
    current: Option<usize>,
    retention: &Retention,
    now: &Timestamp,
) -> Result<usize> {
    let last = made.len().saturating_sub(retention.keep_last);
    // A retention that reaches back before the earliest timestamp keeps everything.
    let cutoff = moment(now)?.checked_sub(retention.keep_for).ok();
    let is_young = |time: &jiff::Timestamp| cutoff.is_none_or(|cutoff| *time > cutoff);
    let mut young = made.len();
    let mut unknown_from = 0;
    for (index, made) in made.iter().enumerate() {
        let Some(time) = made.and_then(|made| moment(made).ok()) else {
            continue;
        };
        if is_young(&time) {
            young = unknown_from;
            break;
        }
        unknown_from = index + 1;
    }
    let young = young.min(unknown_from);
    Ok(last.min(young).min(current.unwrap_or(made.len())))
}

/// The end of a grace period that began at `since`; the latest possible timestamp if the period ends after it.
///
/// # Errors
/// `Invalid` if `since` isn't a timestamp.
pub(super) fn after(since: &Timestamp, grace: Duration) -> Result<Timestamp> {
    let end = moment(since)?.checked_add(grace).unwrap_or(jiff::Timestamp::MAX);
    Ok(Timestamp::new(end.to_string()))
}

/// Whether the grace period that began at `since` has passed.
///
/// # Errors
/// `Invalid` if `since` isn't a timestamp.
pub(super) fn has_passed(since: &Timestamp, grace: Duration, now: &Timestamp) -> Result<bool> {
    let end = moment(since)?.checked_add(grace);
    // If the end exceeds the range of timestamps, or `now` can't be parsed, the period counts as not passed.
    Ok(end.is_ok_and(|end| end <= moment(now).unwrap_or(jiff::Timestamp::MIN)))
}

fn moment(of: &Timestamp) -> Result<jiff::Timestamp> {
    of.as_str()
        .parse()
        .map_err(|_| Error::invalid("the time of a collection", "it is not an RFC 3339 timestamp"))
}

#[cfg(test)]
mod tests {
    use super::{Duration, Retention, Timestamp, after, has_passed, oldest_kept};

    fn at(hour: u32) -> Timestamp {
        Timestamp::new(format!("2026-01-01T{hour:02}:00:00Z"))
    }

    /// [`oldest_kept`] at 10:00, for revisions that were made at these hours. `keep_for` is a number of hours.
    fn kept(hours: &[Option<u32>], current: Option<usize>, keep_for: u64, keep_last: usize) -> usize {
        let made: Vec<_> = hours.iter().map(|hour| hour.map(at)).collect();
        let made: Vec<_> = made.iter().map(Option::as_ref).collect();
        let retention = Retention {
            keep_for: Duration::from_secs(keep_for * 3600),
            keep_last,
            ..Retention::default()
        };
        oldest_kept(&made, current, &retention, &at(10)).unwrap()
    }

    #[test]
    fn revision_is_kept_if_young_or_among_the_last() {
        let hours = [Some(1), Some(3), Some(8), Some(9)];
        assert_eq!(kept(&hours, Some(3), 3, 1), 2, "young revisions are kept");
        assert_eq!(
            kept(&hours, Some(3), 2, 1),
            3,
            "a revision that is exactly as old as the limit is not young"
        );
        assert_eq!(kept(&hours, Some(3), 0, 3), 1, "the last revisions are kept");
        assert_eq!(kept(&hours, Some(3), 0, 9), 0);
        assert_eq!(
            kept(&hours, Some(3), u64::MAX / 7200, 0),
            0,
            "the cutoff is before the earliest timestamp"
        );
        assert_eq!(kept(&[], None, 1, 1), 0);
    }

    #[test]
    fn current_revision_and_later_ones_are_kept() {
        let hours = [Some(1), Some(2), Some(3)];
        assert_eq!(kept(&hours, Some(1), 0, 0), 1);
        assert_eq!(kept(&hours, Some(2), 0, 0), 2);
    }

    #[test]
    fn revision_of_unknown_age_is_as_young_as_the_next() {
        assert_eq!(kept(&[Some(1), None, Some(9)], Some(2), 2, 0), 1);
        assert_eq!(kept(&[Some(1), None, Some(2), Some(9)], Some(3), 2, 0), 3);
        assert_eq!(kept(&[Some(9), None, None], Some(0), 0, 0), 0);
        assert_eq!(
            kept(&[Some(1), Some(2), None, None], None, 0, 0),
            2,
            "no later revision has a known age"
        );
    }

    #[test]
    fn grace_period_has_passed_from_its_end_on() {
        let hour = Duration::from_secs(3600);
        assert_eq!(after(&at(1), hour).unwrap(), at(2));
        assert!(!has_passed(&at(2), hour, &at(2)).unwrap());
        assert!(has_passed(&at(2), hour, &at(3)).unwrap());
        assert!(has_passed(&at(2), Duration::ZERO, &at(2)).unwrap());
        assert!(
            !has_passed(&at(2), Duration::ZERO, &at(1)).unwrap(),
            "the clock went back"
        );
        assert!(!has_passed(&at(2), Duration::MAX, &at(3)).unwrap());
    }
}

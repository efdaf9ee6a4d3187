//! Moments as people tell them.

use state_core::Timestamp;

/// How long ago a moment was, in its largest unit: `2m ago`. A text that names no moment stays as it is.
pub(crate) fn age(now: &Timestamp, then: &Timestamp) -> String {
    let parse = |moment: &Timestamp| moment.as_str().parse::<jiff::Timestamp>().ok();
    let (Some(now), Some(moment)) = (parse(now), parse(then)) else {
        return then.as_str().to_owned();
    };
    let seconds = now.as_second().saturating_sub(moment.as_second());
    match seconds {
        ..=-5 => then.as_str().to_owned(),
        -4..=4 => "just now".to_owned(),
        5..=59 => format!("{seconds}s ago"),
        60..=3_599 => format!("{}m ago", seconds / 60),
        3_600..=86_399 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::age;
    use state_core::Timestamp;

    fn at(text: &str) -> Timestamp {
        Timestamp::new(text)
    }

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let now = at("2026-03-01T12:00:00Z");
        for (then, told) in [
            ("2026-03-01T12:00:00.5Z", "just now"),
            ("2026-03-01T11:59:30Z", "30s ago"),
            ("2026-03-01T11:58:00Z", "2m ago"),
            ("2026-03-01T09:00:00+00:00", "3h ago"),
            ("2026-02-27T12:00:00Z", "2d ago"),
        ] {
            assert_eq!(age(&now, &at(then)), told);
        }
    }

    #[test]
    fn a_moment_that_makes_no_sense_stays_as_it_is_spelled() {
        let now = at("2026-03-01T12:00:00Z");
        assert_eq!(age(&now, &at("yesterday")), "yesterday");
        assert_eq!(age(&now, &at("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
    }
}

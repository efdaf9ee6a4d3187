//! Moments and durations as people tell and type them.

use crate::error::CliError;
use state_core::Timestamp;
use std::str::FromStr;
use std::time::Duration;

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

/// A moment as people name one that is past.
#[derive(Clone, Debug)]
pub(crate) enum Since {
    /// So long before now.
    Back(jiff::Span),
    /// Then.
    Moment(jiff::Timestamp),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(moment) = text.parse() {
            return Ok(Self::Moment(moment));
        }
        if let Ok(day) = text.parse::<jiff::civil::Date>() {
            let start = day.at(0, 0, 0, 0).to_zoned(jiff::tz::TimeZone::UTC);
            return start
                .map(|start| Self::Moment(start.timestamp()))
                .map_err(|_| "no such day".to_owned());
        }
        text.parse::<jiff::Span>()
            .map(|span| Self::Back(span.abs()))
            .map_err(|_| "neither a span such as `2h`, nor a day, nor a moment".to_owned())
    }
}

impl Since {
    /// The moment, seen from now; `flag` named it. A day has 24 hours.
    ///
    /// # Errors
    /// [`Usage`](crate::ExitCode::Usage) when the span has no fixed length, or leads out of time.
    pub(crate) fn moment(&self, flag: &str, now: &Timestamp) -> Result<jiff::Timestamp, CliError> {
        let refused = || CliError::usage(flag, "it names no moment");
        match self {
            Self::Moment(moment) => Ok(*moment),
            Self::Back(span) => {
                let now: jiff::Timestamp = now.as_str().parse().map_err(|_| refused())?;
                let length = span
                    .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
                    .map_err(|_| refused().with_hint("use weeks, days, hours or minutes"))?;
                now.checked_sub(length).map_err(|_| refused())
            }
        }
    }
}

/// The duration that a text spells.
///
/// # Errors
/// What is wrong with it, for the command line to tell.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{}` isn't a duration such as 90s, 30m, 12h, 30d or 1d12h",
            text.escape_debug()
        )
    };
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let mut letters = unit.chars();
        let seconds: u64 = match letters.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(seconds).map(Duration::from_secs);
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = letters.as_str();
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// A duration as people write it: `30s`, `1m 30s`, `500ms`, `PT5M`.
pub(crate) fn friendly_duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "a duration is a number with a unit, such as `30s` or `5m`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Since, age, duration, friendly_duration};
    use state_core::Timestamp;
    use std::time::Duration;

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
    fn since_is_a_span_a_day_or_a_moment() {
        let now = at("2026-03-01T12:00:00Z");
        for (text, moment) in [
            ("2h", "2026-03-01T10:00:00Z"),
            ("7d", "2026-02-22T12:00:00Z"),
            ("1w", "2026-02-22T12:00:00Z"),
            ("90m ago", "2026-03-01T10:30:00Z"),
            ("2026-02-01", "2026-02-01T00:00:00Z"),
            ("2026-02-01T03:00:00+01:00", "2026-02-01T02:00:00Z"),
        ] {
            let since: Since = text.parse().unwrap();
            assert_eq!(
                since.moment("--since", &now).unwrap(),
                moment.parse().unwrap(),
                "{text}"
            );
        }
        assert!("soon".parse::<Since>().is_err());
        assert!("1mo".parse::<Since>().unwrap().moment("--since", &now).is_err());
        assert!("9999w".parse::<Since>().unwrap().moment("--since", &now).is_ok());
    }

    #[test]
    fn a_moment_that_makes_no_sense_stays_as_it_is_spelled() {
        let now = at("2026-03-01T12:00:00Z");
        assert_eq!(age(&now, &at("yesterday")), "yesterday");
        assert_eq!(age(&now, &at("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn durations_are_read_in_their_units() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("2m", 120),
            ("12h", 43_200),
            ("1d12h", 129_600),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "5",
            "h",
            "-1h",
            "1 h",
            "1.5h",
            "1y",
            "99999999999999999999s",
            "18446744073709551615w",
            "1é",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("5m", 300), ("1m 30s", 90), ("PT5M", 300)] {
            assert_eq!(
                friendly_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for wrong in ["", "5", "soon", "-5s", "99999999999999999999s"] {
            assert!(friendly_duration(wrong).is_err(), "{wrong}");
        }
    }
}

//! Prints ages, and parses points in time and durations.

use crate::error::CliError;
use state_core::Timestamp;
use std::str::FromStr;
use std::time::Duration;

/// The age of a point in time in its largest unit: `2m ago`. A timestamp that can't be parsed is returned unchanged.
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

/// A point in the past, as given on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Since {
    /// A duration before now.
    Back(jiff::Span),
    /// An absolute point in time.
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
                .map_err(|_| "no such date".to_owned());
        }
        text.parse::<jiff::Span>()
            .map(|span| Self::Back(span.abs()))
            .map_err(|_| "expected a duration such as `2h`, a date, or a date and time".to_owned())
    }
}

impl Since {
    /// The point in time, relative to `now`; `flag` is named in errors. A day has 24 hours.
    ///
    /// # Errors
    /// [`Usage`](crate::ExitCode::Usage) if the duration has no fixed length (months, years), or is too long.
    pub(crate) fn moment(&self, flag: &str, now: &Timestamp) -> Result<jiff::Timestamp, CliError> {
        let refused = || CliError::usage(flag, "not a valid time");
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

/// Parses a duration such as `90s` or `1d12h`.
///
/// # Errors
/// A message for the command line.
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

/// Parses a duration in the formats of jiff: `30s`, `1m 30s`, `500ms`, `PT5M`.
pub(crate) fn friendly_duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "expected a number with a unit, such as `30s` or `5m`".to_owned())
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
    fn age_is_printed_in_its_largest_unit() {
        let now = at("2026-03-01T12:00:00Z");
        for (then, expected) in [
            ("2026-03-01T12:00:00.5Z", "just now"),
            ("2026-03-01T11:59:30Z", "30s ago"),
            ("2026-03-01T11:58:00Z", "2m ago"),
            ("2026-03-01T09:00:00+00:00", "3h ago"),
            ("2026-02-27T12:00:00Z", "2d ago"),
        ] {
            assert_eq!(age(&now, &at(then)), expected);
        }
    }

    #[test]
    fn since_is_a_duration_a_date_or_a_time() {
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
    fn invalid_timestamp_is_printed_unchanged() {
        let now = at("2026-03-01T12:00:00Z");
        assert_eq!(age(&now, &at("yesterday")), "yesterday");
        assert_eq!(age(&now, &at("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn durations_are_parsed_in_all_units() {
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
    fn invalid_durations_are_refused() {
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
    fn friendly_durations_are_parsed() {
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

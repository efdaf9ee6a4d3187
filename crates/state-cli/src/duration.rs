//! Durations as people type them: `90s`, `30m`, `12h`, `30d`, `2w`, or several in a row: `1d12h`.

use std::time::Duration;

/// The duration that a text spells.
///
/// # Errors
/// What is wrong with it, for the command line to tell.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
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
pub(crate) fn friendly(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "a duration is a number with a unit, such as `30s` or `5m`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{friendly, parse};
    use std::time::Duration;

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
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
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
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("5m", 300), ("1m 30s", 90), ("PT5M", 300)] {
            assert_eq!(friendly(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "5", "soon", "-5s", "99999999999999999999s"] {
            assert!(friendly(wrong).is_err(), "{wrong}");
        }
    }
}

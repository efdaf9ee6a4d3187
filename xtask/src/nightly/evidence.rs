//! The committed record of a nightly run: commit, amount of testing, seeds and results.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use crate::process::{Failure, probe, root, stdout};

/// The result of one part, as a row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) part: &'static str,
    pub(super) about: &'static str,
    /// Amount of work done: a number with its unit.
    pub(super) done: String,
    /// The first and the last seed; `None` for a part whose seeds are fixed, or random and not recorded.
    pub(super) seeds: Option<(u64, u64)>,
    pub(super) seconds: u64,
    pub(super) verdict: Verdict,
}

/// How a part ended.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed,
    /// The time limit ended the part before it had done its planned amount.
    CutShort,
    /// The part can't run on this machine, for this reason.
    Skipped(String),
    /// The part failed: the reason, or the path of the log.
    Failed(String),
}

impl Verdict {
    pub(super) const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::CutShort => f.write_str("cut short by the time limit"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// Appends a section to the file of this day and commit; returns the path of the file.
pub(super) fn append(rows: &[Row], seconds_since_epoch: u64) -> Result<PathBuf, Failure> {
    let commit = line(&["git", "rev-parse", "--short=12", "HEAD"])?;
    let changed = !line(&["git", "status", "--porcelain", "--untracked-files=no"])?.is_empty();
    let compiler = line(&["rustc", "--version"])?;
    let (date, time) = date_and_time(seconds_since_epoch);
    let path = root().join(format!("docs/evidence/{date}-{commit}.md"));
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let is_new = !path.exists();
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .map_err(failed)?;
    let mut text = String::new();
    if is_new {
        text += &format!("# Nightly runs on {date}, commit {commit}\n");
    }
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let state = if changed { ", with uncommitted changes" } else { "" };
    text += &format!("\n## Started at {time} UTC{state}\n\n{compiler}, {cores} cores.\n\n");
    text += &table(rows);
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path)
}

fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("| part | tests | done | seeds | seconds | result |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let seeds = row.seeds.map_or_else(
            || "fixed or random".to_owned(),
            |(first, last)| format!("{first} to {last}"),
        );
        // Absolute paths mean nothing on other machines.
        let verdict = match &row.verdict {
            Verdict::Failed(_) => "FAILED".to_owned(),
            other => other.to_string(),
        };
        text += &format!(
            "| {} | {} | {} | {seeds} | {} | {verdict} |\n",
            row.part, row.about, row.done, row.seconds
        );
    }
    text
}

/// Returns the first line that a command prints.
fn line(words: &[&str]) -> Result<String, Failure> {
    let [program, arguments @ ..] = words else {
        return Ok(String::new());
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    let output = match probe(&mut command) {
        Some(output) => output.stdout,
        None => stdout(&mut command)?,
    };
    let text = String::from_utf8_lossy(&output);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Returns date and time of day in UTC, such as `2026-01-31` and `23:59`, by the proleptic Gregorian calendar in eras
/// of 400 years that begin in March.
fn date_and_time(seconds_since_epoch: u64) -> (String, String) {
    let days = seconds_since_epoch / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let minutes = seconds_since_epoch % 86_400 / 60;
    (
        format!("{year:04}-{month:02}-{day:02}"),
        format!("{:02}:{:02}", minutes / 60, minutes % 60),
    )
}

#[cfg(test)]
mod tests {
    use super::{Row, Verdict, date_and_time, table};

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date, time) in [
            (0, "1970-01-01", "00:00"),
            (951_782_399, "2000-02-28", "23:59"),
            (951_782_400, "2000-02-29", "00:00"),
            (1_795_337_999, "2026-11-22", "08:59"),
            (4_107_542_399, "2100-02-28", "23:59"),
            (4_107_542_400, "2100-03-01", "00:00"),
        ] {
            assert_eq!(date_and_time(seconds), (date.to_owned(), time.to_owned()));
        }
    }

    #[test]
    fn row_has_counts_seeds_time_and_result_without_paths() {
        let mut row = Row {
            part: "kills",
            about: "kill -9",
            done: "200 kills".to_owned(),
            seeds: Some((7, 8)),
            seconds: 12,
            verdict: Verdict::Passed,
        };
        let line = "| kills | kill -9 | 200 kills | 7 to 8 | 12 | passed |\n";
        assert!(table(&[]).len() + line.len() == table(std::slice::from_ref(&row)).len());
        assert!(table(std::slice::from_ref(&row)).ends_with(line));
        row.verdict = Verdict::Failed("see somewhere".to_owned());
        assert!(table(&[row]).ends_with("| FAILED |\n"));
    }
}

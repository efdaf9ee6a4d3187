//! Settings of a test run from the environment: the scale of randomized tests, and the log of skipped tests.

use proptest::test_runner::Config;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;

/// Environment variable that multiplies the counts of randomized tests; an integer of at least 1.
pub const SCALE: &str = "STATE_TEST_SCALE";

/// Environment variable that names the file to which every skipped test appends a line.
pub const SKIP_LOG: &str = "STATE_SKIP_LOG";

/// Returns the number of cases, rounds or schedules that a randomized test tries: `usual`, times `STATE_TEST_SCALE`.
pub fn scaled(usual: u32) -> u32 {
    let scale = std::env::var(SCALE).ok().and_then(|text| text.parse().ok());
    usual.saturating_mul(scale.unwrap_or(1).max(1))
}

/// Minimum number of cases of a property that guards a promise; [`scaled`] multiplies this number.
const PROPERTY_CASES: u32 = 1_000;

/// Returns the configuration of a property that guards a promise: 1,000 cases times `STATE_TEST_SCALE`, or
/// `PROPTEST_CASES` if that is higher.
pub fn property_config() -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(scaled(PROPERTY_CASES)),
        ..default
    }
}

/// Reports that the running test is skipped. `missing` is one word for the missing requirement: a program, a variable
/// or a set of files. `untested` describes the rule that is not tested.
///
/// The report is printed to standard error. Because cargo hides the output of passing tests, it is also appended to the
/// file that `STATE_SKIP_LOG` names. A line of this file consists of `missing`, the test and `untested`, separated by
/// tabs.
///
/// # Panics
///
/// Panics when the file can't be written, because the test run would then count the skipped test as passed.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
pub fn skip(missing: &str, untested: &str) {
    eprintln!("SKIP: {missing} is missing: {untested}");
    let Some(path) = std::env::var_os(SKIP_LOG) else {
        return;
    };
    let line = skip_line(missing, &running_test(), untested);
    // A single write, so that lines of concurrent processes are not interleaved.
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{}: {error}", path.display());
    }
}

fn skip_line(missing: &str, test: &str, untested: &str) -> String {
    let one_line = |text: &str| text.replace(['\t', '\r', '\n'], " ");
    format!(
        "{}\t{}\t{}\n",
        one_line(missing),
        one_line(test),
        one_line(untested)
    )
}

/// Returns the name of the test binary and of the running test, which is the name of its thread in libtest.
fn running_test() -> String {
    let binary = std::env::current_exe().unwrap_or_default();
    let binary = binary.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the name of a test binary.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    let thread = thread::current();
    format!("{binary}::{}", thread.name().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::{PROPERTY_CASES, property_config, running_test, scaled, skip_line};

    #[test]
    fn skip_line_has_three_fields_and_one_line_break() {
        let line = skip_line("strace", "suite::crash", "no kills\tbefore\nsystem calls");
        assert_eq!(line, "strace\tsuite::crash\tno kills before system calls\n");
    }

    #[test]
    fn running_test_is_named_with_its_module() {
        assert_eq!(
            running_test(),
            "state_core::testkit::run::tests::running_test_is_named_with_its_module"
        );
    }

    #[test]
    fn count_is_never_below_the_usual_one() {
        assert!(scaled(1_000) >= 1_000);
        assert_eq!(scaled(u32::MAX), u32::MAX);
    }

    #[test]
    fn property_runs_at_least_1000_cases() {
        assert_eq!(PROPERTY_CASES, 1_000);
        assert!(property_config().cases >= scaled(PROPERTY_CASES));
    }
}

//! The table of nightly parts. Each new randomized test gets a row.

use std::process::Command;

use crate::process::cargo;

/// A part: a name for the command line, and a row of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) work: Work,
}

/// How a part is scaled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Repeats tests that read `STATE_TESTS_SEED`, each round with the next range of seeds. A time limit ends it
    /// after a round.
    Rounds(Rounds),
    /// Runs tests once, with counts multiplied by `STATE_TEST_SCALE` and `PROPTEST_CASES`. A time limit kills the run.
    Scaled { tests: Tests, factor: u32 },
    /// Runs `cargo xtask mutants` on all mutants.
    Mutants,
    /// Checks every combination of features.
    Features,
    /// Runs libFuzzer targets, each up to this number of executions.
    Fuzz {
        targets: &'static [&'static str],
        executions: u64,
    },
}

/// A test that is repeated with many seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rounds {
    pub(super) tests: Tests,
    pub(super) rounds: u32,
    /// Name of the unit that is counted.
    pub(super) unit: &'static str,
    pub(super) per_round: u64,
    /// Number of seeds that a round uses, starting with its own seed.
    pub(super) seeds_per_round: u64,
}

/// The selected tests, as arguments of one `cargo test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tests {
    cargo: &'static [&'static str],
    /// Substrings of the names of tests.
    filters: &'static [&'static str],
}

impl Tests {
    pub(super) fn command(&self) -> Command {
        let mut command = cargo(["test", "--no-fail-fast"]);
        command.args(self.cargo).arg("--").args(self.filters);
        command
    }
}

pub(super) const PARTS: &[Part] = &[
    Part {
        name: "lifecycles",
        about: "random lifecycles of the engine",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-engine", "--test", "engine"],
                filters: &["any_lifecycle_keeps_the_state_accurate_and_converges"],
            },
            rounds: 40,
            unit: "lifecycles",
            per_round: 5_000,
            seeds_per_round: 5_000,
        }),
    },
    Part {
        name: "kills",
        about: "kill -9 of a writer at random moments",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["acknowledged_mutations_survive_200_random_kills"],
            },
            rounds: 50,
            unit: "kills",
            per_round: 200,
            seeds_per_round: 1,
        }),
    },
    Part {
        name: "killed-up",
        about: "kill -9 of `statectl up` at random moments, plain and sealed",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-cli", "--test", "cli"],
                filters: &["killed::"],
            },
            rounds: 50,
            unit: "kills",
            per_round: 100,
            seeds_per_round: 1,
        }),
    },
    Part {
        name: "killed-engine",
        about: "kill -9 of random lifecycles of the engine, on files",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-engine", "--test", "engine"],
                filters: &["killed_runs_lose_nothing_and_converge"],
            },
            rounds: 50,
            unit: "kills",
            per_round: 45,
            seeds_per_round: 1,
        }),
    },
    Part {
        name: "commands",
        about: "kill -9 before any changing system call of each writing command",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["crash::commands::command_killed", "--ignored"],
            },
            // All points.
            factor: 12,
        },
    },
    Part {
        name: "corruption",
        about: "flipped bits and cuts in stored files",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["damaged_file_is_named_in_an_error_or_changes_nothing"],
            },
            rounds: 50,
            unit: "damages",
            per_round: 1_000,
            // One seed for each of its threads.
            seeds_per_round: 2,
        }),
    },
    Part {
        name: "races",
        about: "processes that race for one stack",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["race::"],
            },
            rounds: 50,
            unit: "races",
            per_round: 1,
            seeds_per_round: 1,
        }),
    },
    Part {
        name: "laws",
        about: "properties across crates, at least 1,000 cases each in CI",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["laws::"],
            },
            factor: 20,
        },
    },
    Part {
        name: "properties",
        about: "properties inside of crates",
        work: Work::Scaled {
            tests: Tests {
                cargo: &[
                    "-p",
                    "state-core",
                    "-p",
                    "state-encrypt",
                    "-p",
                    "state-formats",
                    "-p",
                    "state-manager",
                    "-p",
                    "state-engine",
                ],
                filters: &["--skip", "lifecycle::"],
            },
            factor: 20,
        },
    },
    Part {
        name: "crashes",
        about: "power losses of random scripts on a simulated disk, 200,000 distinct states in CI",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-backend-fs", "--test", "crashes"],
                filters: &["no_crash_loses_acknowledged_operations"],
            },
            rounds: 100,
            unit: "crash states",
            per_round: 200_000,
            // A round uses about 50 of them, and fails if it needs more.
            seeds_per_round: 1_000,
        }),
    },
    Part {
        name: "schedules",
        about: "random faults of an object store, 10,000 schedules in CI",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-backend-object-store", "--test", "objects"],
                filters: &["schedules::", "disturbed::"],
            },
            factor: 100,
        },
    },
    Part {
        name: "fault-pairs",
        about: "all pairs of faults over thirty operations on an object store, 20,000 pairs in CI",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-backend-object-store", "--test", "objects"],
                filters: &["two_faults_anywhere_in_thirty_operations_lose_nothing"],
            },
            // More than there are pairs.
            factor: 1_000,
        },
    },
    Part {
        name: "simulation",
        about: "processes on one stack of an object store, with pauses, crashes and takeovers, 20,000 seeds in CI",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-backend-object-store", "--test", "objects"],
                filters: &["processes_on_one_stack_lose_nothing_and_get_on"],
            },
            rounds: 50,
            unit: "seeds",
            per_round: 20_000,
            seeds_per_round: 20_000,
        }),
    },
    Part {
        name: "models",
        about: "searches of the protocol models with larger bounds",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-models", "--test", "models"],
                filters: &[],
            },
            factor: 2,
        },
    },
    Part {
        name: "forgeries",
        about: "forgery of any object before any request of a command, one in 37 in each round and in CI",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-manager", "--release", "--test", "hostile"],
                filters: &["no_single_forgery_is_signed_shown_or_remembered"],
            },
            rounds: 37,
            unit: "of 37 parts",
            per_round: 1,
            seeds_per_round: 1,
        }),
    },
    Part {
        name: "pairs",
        about: "random pairs of forgeries in one command",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-manager", "--release", "--test", "hostile"],
                filters: &["no_pair_of_forgeries_is_signed_shown_or_remembered"],
            },
            rounds: 170,
            unit: "pairs",
            per_round: 12_000,
            seeds_per_round: 12_000,
        }),
    },
    Part {
        name: "damages",
        about: "every bit of small stores flipped, every cut and every missing object, one in 1,009 in CI",
        work: Work::Scaled {
            tests: Tests {
                cargo: &["-p", "state-manager", "--release", "--test", "hostile"],
                filters: &["damaged::"],
            },
            factor: 1009,
        },
    },
    Part {
        name: "binary",
        about: "random forgeries between two requests of a `statectl` process",
        work: Work::Rounds(Rounds {
            tests: Tests {
                cargo: &["-p", "state-tests", "--test", "suite"],
                filters: &["binary_accepts_no_forged_object_between_two_requests"],
            },
            rounds: 34,
            unit: "schedules",
            per_round: 60,
            seeds_per_round: 60,
        }),
    },
    Part {
        name: "mutants",
        about: "every deliberate bug is detected",
        work: Work::Mutants,
    },
    Part {
        name: "features",
        about: "packages build alone with each of their features, a few of them in CI",
        work: Work::Features,
    },
    Part {
        name: "fuzz",
        about: "coverage-guided fuzzing of every decoder",
        work: Work::Fuzz {
            targets: &[
                "terraform",
                "unobin",
                "pulumi",
                "snapshot",
                "frame",
                "head",
                "program",
                "keys",
                "stored",
            ],
            executions: 12_000_000,
        },
    },
];

/// The parts of `cargo xtask torture`: those that attack the protocol with crashes, faults and races.
pub(super) const TORTURE: &[&str] = &[
    "kills",
    "killed-up",
    "killed-engine",
    "commands",
    "corruption",
    "races",
    "crashes",
    "schedules",
    "fault-pairs",
    "simulation",
    "models",
    "pairs",
    "damages",
];

#[cfg(test)]
mod tests {
    use super::{PARTS, Rounds, TORTURE, Work};
    use crate::process::root;
    use std::collections::BTreeSet;

    #[test]
    fn each_part_has_a_unique_name_and_some_work() {
        let names: BTreeSet<&str> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), PARTS.len());
        assert!(TORTURE.iter().all(|name| names.contains(name)));
        for part in PARTS {
            let does_nothing = matches!(
                part.work,
                Work::Rounds(Rounds { rounds: 0, .. }) | Work::Scaled { factor: 0, .. }
            );
            assert!(!does_nothing && !part.name.starts_with('-'), "{}", part.name);
        }
    }

    #[test]
    fn every_fuzz_target_is_in_the_nightly_run() {
        let folder = root().join("fuzz/fuzz_targets");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("fuzz targets")
            .map(|file| file.expect("a file").path())
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        let run: BTreeSet<String> = PARTS
            .iter()
            .filter_map(|part| match &part.work {
                Work::Fuzz { targets, .. } => Some(targets.iter().map(|name| (*name).to_owned())),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(run, there);
    }
}

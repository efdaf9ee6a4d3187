//! The highest number of requests and of rounds of each command on an object store, for a sealed stack. `cargo xtask ci`
//! and `cargo xtask bench count` check the same numbers: this is their only place.

/// A command with its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Name of the command in the report.
    pub(super) name: &'static str,
    /// The arguments of `statectl`.
    pub(super) arguments: &'static [&'static str],
    /// The highest number of requests.
    pub(super) requests: usize,
    /// The highest number of rounds: the length of the longest chain of dependent requests.
    pub(super) rounds: usize,
}

const fn limit(
    name: &'static str,
    arguments: &'static [&'static str],
    requests: usize,
    rounds: usize,
) -> Limit {
    Limit {
        name,
        arguments,
        requests,
        rounds,
    }
}

/// No limit: only the requests of this command are limited.
pub(super) const ANY: usize = usize::MAX;

/// Formats a limit for a person.
pub(super) fn bound(most: usize) -> String {
    match most {
        ANY => "-".to_owned(),
        most => most.to_string(),
    }
}

/// Commands that read a stack whose last session was closed.
pub(super) const READS: &[Limit] = &[
    limit("list", &["list"], 8, 3),
    limit("show", &["show", "r1"], 8, 3),
    limit("outputs", &["outputs"], 8, 3),
    limit("history", &["history", "-n", "20"], 8, 3),
    limit("diff", &["diff", "@-", "@"], 8, 3),
    limit("diff of an early revision", &["diff", "1", "@"], 22, 11),
    limit("blame", &["blame", "r1"], 8, 3),
];

/// Commands that change a stack whose last session was closed.
pub(super) const WRITES: &[Limit] = &[
    limit("taint", &["taint", "r2", "--yes"], 16, 8),
    limit("undo", &["undo", "--yes"], 17, 10),
    limit("rollback", &["rollback", "@-", "--yes"], 22, 11),
    limit(
        "rollback to an early revision",
        &["rollback", "1", "--yes"],
        22,
        11,
    ),
    limit("import", &["import", "exported.json", "--force", "--yes"], 22, 11),
    limit("up", &["up", "--yes"], 22, 11),
];

/// The reads of a client that never saw the stack.
pub(super) const FIRST_CONTACT: &[Limit] = &[
    limit("list, first contact", &["list"], 8, 4),
    limit("show, first contact", &["show", "r1"], 8, 4),
    limit("outputs, first contact", &["outputs"], 8, 4),
    limit("history, first contact", &["history", "-n", "20"], 8, 4),
];

/// The reads of a stack whose last writer crashed.
pub(super) const AFTER_CRASH: &[Limit] = &[
    limit("list, after a crash", &["list"], 16, ANY),
    limit("show, after a crash", &["show", "r1"], 16, ANY),
    limit("outputs, after a crash", &["outputs"], 16, ANY),
    limit("history, after a crash", &["history", "-n", "20"], 16, ANY),
];

/// A deployment of 100 resources whose provider calls return at once, with ten of them in parallel.
pub(super) const UP_AT_ONCE: Limit = limit("up of 100", &["up", "--yes"], 70, ANY);

/// A deployment of 100 resources whose provider calls take 0.2 to 3 seconds: 1.1 requests a step, and 25.
pub(super) const UP_SLOW: Limit = limit("up of 100, slow calls", &["up", "--yes"], 110 + 25, ANY);

/// The lists of a store with [`MANY_STACKS`] sealed stacks that this client knows: a pointer and a head a stack; the
/// completion of a name reads the pointers alone.
pub(super) const LISTS: &[Limit] = &[
    limit("stack ls of 100", &["stack", "ls"], 205, 6),
    limit("names of 100 stacks", &["__words", "stacks"], 105, 6),
];

/// Number of stacks in the lists.
pub(super) const MANY_STACKS: usize = 100;

/// The first use of a store, with its probe.
pub(super) const FIRST_USE: Limit = limit("init", &["init"], 150, 25);

//! The layers themselves: the table of the design, and what a crate must never make its users build.

/// What one of our crates may use of the others, in normal and build dependencies.
pub(super) struct Layer {
    pub(super) name: &'static str,
    pub(super) may_use: &'static [&'static str],
    /// Allowed as well, but only as an optional dependency.
    pub(super) as_feature: &'static [&'static str],
    /// Tests stand outside the layers, except where the crate must be testable with nothing of ours around it.
    pub(super) dev_may_use_all: bool,
}

/// Nothing but these edges. Crates that don't exist yet have their place already.
pub(super) const LAYERS: &[Layer] = &[
    layer("state-core", &[], &[]).alone(),
    layer("state-backend-fs", &["state-core"], &[]),
    layer("state-backend-generic", &["state-core"], &[]),
    layer(
        "state-backend-object-store",
        &["state-core", "state-backend-generic"],
        &[],
    ),
    layer("state-encrypt", &["state-core"], &[]),
    layer("state-formats", &["state-core"], &["state-encrypt"]),
    layer(
        "state-manager",
        &["state-core"],
        &["state-backend-fs", "state-backend-object-store", "state-encrypt"],
    ),
    layer("state-engine", &["state-core", "state-manager"], &[]),
    layer(
        "state-server",
        &["state-core", "state-manager", "state-formats"],
        &[],
    ),
    layer("state-cli", ALL, &[]),
    layer("state-tests", ALL, &[]),
    layer("xtask", &[], &[]).alone(),
];

/// Never among the normal and build dependencies of the package, however deep and whatever the features.
pub(super) const NEVER_BUILT: &[(&str, &str)] = &[
    ("state-core", "tokio"),
    ("state-backend-fs", "reqwest"),
    ("state-backend-fs", "age"),
    ("state-manager", "age"),
];

/// Never among them while no feature but the default ones is asked for.
pub(super) const NEVER_BY_DEFAULT: &[(&str, &str)] = &[
    ("state-manager", "reqwest"),
    ("state-backend-object-store", "reqwest"),
];

/// For those that stand on top; the edge of a crate to itself is none.
const ALL: &[&str] = &[
    "state-core",
    "state-backend-fs",
    "state-backend-generic",
    "state-backend-object-store",
    "state-encrypt",
    "state-formats",
    "state-manager",
    "state-engine",
    "state-server",
    "state-cli",
];

const fn layer(
    name: &'static str,
    may_use: &'static [&'static str],
    as_feature: &'static [&'static str],
) -> Layer {
    Layer {
        name,
        may_use,
        as_feature,
        dev_may_use_all: true,
    }
}

impl Layer {
    const fn alone(self) -> Self {
        Self {
            dev_may_use_all: false,
            ..self
        }
    }
}

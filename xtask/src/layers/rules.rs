//! The table of layers, and the dependencies that a crate must never bring to its users.

/// The crates that a crate of this workspace may use in normal and build dependencies.
pub(super) struct Layer {
    pub(super) name: &'static str,
    pub(super) may_use: &'static [&'static str],
    /// Crates that this crate may use only as optional dependencies.
    pub(super) as_feature: &'static [&'static str],
    /// Whether tests of the crate may use any crate. False for crates that must be testable by themselves.
    pub(super) dev_may_use_all: bool,
}

/// All allowed dependencies, including those of planned crates.
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
        "state-import",
        &["state-core", "state-manager", "state-formats"],
        &[],
    ),
    layer(
        "state-server",
        &["state-core", "state-manager", "state-formats", "state-import"],
        &[],
    ),
    layer("state-cli", ALL, &[]),
    layer("state-tests", ALL, &[]),
    layer("state-models", &[], &[]).alone(),
    layer("xtask", &[], &[]).alone(),
];

/// Forbidden at any depth in normal and build dependencies, with any features. A dependency that a layer allows is
/// refused too if it builds such a crate, as `state-encrypt` builds `age`.
pub(super) const NEVER_BUILT: &[(&str, &str)] = &[
    ("state-core", "tokio"),
    ("state-backend-fs", "reqwest"),
    ("state-backend-fs", "age"),
    ("state-manager", "age"),
];

/// Forbidden with the default features only.
pub(super) const NEVER_BY_DEFAULT: &[(&str, &str)] = &[
    ("state-manager", "reqwest"),
    ("state-backend-object-store", "reqwest"),
];

/// For crates at the top, which may use all others. The entry of a crate itself has no effect.
const ALL: &[&str] = &[
    "state-core",
    "state-backend-fs",
    "state-backend-generic",
    "state-backend-object-store",
    "state-encrypt",
    "state-formats",
    "state-manager",
    "state-engine",
    "state-import",
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

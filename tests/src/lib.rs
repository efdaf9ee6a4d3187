//! Helpers for the tests that span several crates. The tests themselves are in `suite/`.

pub mod clients;
pub mod dice;
pub mod large;
pub mod line;
pub mod workload;

/// Compiles and runs the examples of the guides as documentation tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/guides/embedders.md")]
    mod embedders {}
    #[doc = include_str!("../../docs/guides/provider-authors.md")]
    mod provider_authors {}
}

/// Returns the URL of a store: `store` itself if it is a URL, else the `file:` URL of the folder `store`.
pub fn url(store: &str) -> String {
    if store.contains("://") {
        return store.to_owned();
    }
    format!("file://{store}")
}

//! Laws and scenarios across crates; the tests are in `suite/`.

pub mod clients;
pub mod dice;
pub mod large;
pub mod line;
pub mod workload;

/// The examples of the guides, compiled and run as tests of the documentation.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/guides/embedders.md")]
    mod embedders {}
    #[doc = include_str!("../../docs/guides/provider-authors.md")]
    mod provider_authors {}
}

/// The URL of a store that is named by one, or by its folder.
pub fn url(place: &str) -> String {
    if place.contains("://") {
        return place.to_owned();
    }
    format!("file://{place}")
}

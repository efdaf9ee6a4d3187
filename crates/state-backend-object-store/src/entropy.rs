//! The operating system's randomness, the default of `Options::entropy`.

use state_core::Entropy;

/// Random bytes from the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the system's randomness is injected"
    )]
    #[expect(
        clippy::expect_used,
        reason = "without randomness no unique probe folder can be created"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

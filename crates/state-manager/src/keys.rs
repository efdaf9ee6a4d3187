//! Data keys. A stack's data key seals values, and authenticates heads, journals and documents. The store contains the
//! key only wrapped, that is encrypted for its recipients. A *pin* is what this client remembers of a stack that it
//! read before ([`KnownStacks`](crate::KnownStacks)).
//!
//! | file | purpose |
//! |---|---|
//! | `wrapped` | reads, writes and unwraps stored keys |
//! | `authenticate` | decides which stored values this client accepts, and gives them their proof |
//! | `proof` | how a client knows who wrote a value |
//! | `pinned_key` | compares the key of a head with the pin of this client |
//! | `position` | the position of a stack, compared with a pinned one |
//! | `trust` | compares a stack with the pin of this client, and updates the pin |
//! | `sealing` | seals the values of a locked stack |
//! | `reveal` | opens sealed values |
//! | `rotation` | changes the data key and the policy |
//! | `recipients` | adds recipients |

pub(crate) mod authenticate;
pub(crate) mod pinned_key;
pub(crate) mod position;
pub(crate) mod proof;
pub(crate) mod recipients;
pub(crate) mod reveal;
pub(crate) mod rotation;
pub(crate) mod sealing;
pub(crate) mod trust;
pub(crate) mod wrapped;

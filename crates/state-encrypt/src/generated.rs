//! A new identity of one's own.

use age::secrecy::ExposeSecret;
use std::fmt;
use zeroize::Zeroizing;

/// What [`generate_identity`] makes: a secret key, and the recipient that goes with it. `Debug` shows the recipient.
pub struct GeneratedIdentity {
    file: Zeroizing<String>,
    recipient: String,
}

impl GeneratedIdentity {
    /// The text of an identity file, as `age-keygen` writes it but for the time. Secret: its file is 0600.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The public key. Not secret.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }
}

impl fmt::Debug for GeneratedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GeneratedIdentity({})", self.recipient)
    }
}

/// Makes an X25519 identity. Its randomness is age's own, of the operating system.
pub fn generate_identity() -> GeneratedIdentity {
    let identity = age::x25519::Identity::generate();
    let recipient = identity.to_public().to_string();
    let mut file = Zeroizing::new(String::with_capacity(192));
    file.push_str("# public key: ");
    file.push_str(&recipient);
    file.push('\n');
    file.push_str(identity.to_string().expose_secret());
    file.push('\n');
    GeneratedIdentity { file, recipient }
}

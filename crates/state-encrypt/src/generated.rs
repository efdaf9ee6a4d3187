//! Generates new age identities.

use age::secrecy::ExposeSecret;
use std::fmt;
use zeroize::Zeroizing;

/// A generated secret key, and the recipient that belongs to it. `Debug` shows the recipient.
pub struct GeneratedIdentity {
    file: Zeroizing<String>,
    recipient: String,
}

impl GeneratedIdentity {
    /// Returns the text of an identity file, as `age-keygen` writes it, without the line `# created:`. The text is
    /// secret: store it with mode 0600.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the public key, which is not secret.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }
}

impl fmt::Debug for GeneratedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GeneratedIdentity({})", self.recipient)
    }
}

/// Generates an X25519 identity. age draws its randomness from the operating system.
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

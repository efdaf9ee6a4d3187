//! Derives the key from a passphrase (PBKDF2) and decrypts with it (AES-GCM).

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::aes::Aes192;
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pbkdf2::pbkdf2_hmac;
use sha2::{Sha256, Sha512};
use state_core::json::View;
use zeroize::Zeroizing;

/// Length of a nonce in bytes.
const NONCE: usize = 12;

/// Maximum number of PBKDF2 iterations. More iterations would take minutes; only a forged file specifies so many.
const MAX_ITERATIONS: u32 = 20_000_000;

/// Decrypts `data`. Returns the reason of a failure as the error.
pub(super) fn open(derivation: &View<'_>, data: &[u8], passphrase: &str) -> Result<Vec<u8>, &'static str> {
    let key = key_of(derivation, passphrase)?;
    let (nonce, sealed) = data
        .split_at_checked(NONCE)
        .ok_or("its ciphertext is truncated")?;
    let opened = match key.len() {
        16 => decrypt(Aes128Gcm::new_from_slice(&key).ok(), nonce, sealed),
        24 => decrypt(AesGcm::<Aes192, U12>::new_from_slice(&key).ok(), nonce, sealed),
        _ => decrypt(Aes256Gcm::new_from_slice(&key).ok(), nonce, sealed),
    };
    opened.ok_or(
        "it can't be decrypted: the passphrase is wrong, the file was modified, or its method isn't `aes_gcm` without \
        additional data",
    )
}

fn decrypt<C: Aead<NonceSize = U12>>(cipher: Option<C>, nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    cipher?.decrypt(Nonce::from_slice(nonce), sealed).ok()
}

fn key_of(derivation: &View<'_>, passphrase: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let number = |name: &str| derivation.get(name).and_then(|view| view.as_u64());
    let text = |name: &str| derivation.get(name).and_then(|view| view.as_str());
    let salt = text("salt").and_then(|salt| STANDARD.decode(&*salt).ok());
    let salt = salt.ok_or("the salt of its key is missing or isn't base64")?;
    let rounds = number("iterations").and_then(|rounds| u32::try_from(rounds).ok());
    let rounds = rounds
        .filter(|rounds| (1..=MAX_ITERATIONS).contains(rounds))
        .ok_or("the iterations of its key are missing, or more than 20,000,000")?;
    let length = match number("key_length") {
        Some(16) => 16,
        Some(24) => 24,
        Some(32) => 32,
        _ => return Err("the length of its key must be 16, 24 or 32 bytes"),
    };
    let mut key = Zeroizing::new(vec![0; length]);
    match text("hash_function").as_deref() {
        Some("sha512") => pbkdf2_hmac::<Sha512>(passphrase.as_bytes(), &salt, rounds, &mut key),
        Some("sha256") => pbkdf2_hmac::<Sha256>(passphrase.as_bytes(), &salt, rounds, &mut key),
        _ => return Err("the hash function of its key must be `sha512` or `sha256`"),
    }
    Ok(key)
}

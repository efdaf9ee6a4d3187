//! Parses SSH keys as recipients and identities of age.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The SSH key types that age supports.
const KNOWN: [&str; 2] = ["ssh-ed25519", "ssh-rsa"];

const MAGIC: &[u8] = b"openssh-key-v1\0";

const DAMAGED: &str = "an SSH key that is cut off or damaged";
const ENCRYPTED: &str = "an SSH key with a passphrase, which is not supported: use a copy without one \
                         (`ssh-keygen -p -N '' -f COPY`), or an age identity";

/// Parses a public key, `ssh-ed25519 …` or `ssh-rsa …`, with or without a comment.
pub(crate) fn recipient(line: &str) -> Result<age::ssh::Recipient, String> {
    use age::ssh::ParseRecipientKeyError as Refusal;
    let expected = "expected `ssh-ed25519` or `ssh-rsa`, then the whole base64 of the key";
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(encoded)) = (words.next(), words.next()) else {
        return Err(format!("an SSH key without its base64: {expected}"));
    };
    let wire = STANDARD
        .decode(encoded)
        .map_err(|_| format!("an SSH key with a typo: {expected}"))?;
    if has_zeros(&wire) {
        return Err(format!("an SSH key with an impossible number: {expected}"));
    }
    format!("{kind} {encoded}")
        .parse()
        .map_err(|refusal: Refusal| match refusal {
            Refusal::RsaModulusTooLarge => "an SSH key of more than 4096 bits".to_owned(),
            Refusal::RsaModulusTooSmall => "an SSH key of fewer than 2048 bits: too weak".to_owned(),
            Refusal::Unsupported(_) => {
                "an SSH key of a type that age doesn't support: expected ssh-ed25519 or ssh-rsa".to_owned()
            }
            _ => format!("an SSH key that is cut off or has a typo: {expected}"),
        })
}

/// Parses a private key from a PEM block. The first and last lines name its format.
pub(crate) fn identity(block: &str) -> Result<age::ssh::Identity, &'static str> {
    let body: String = block.lines().filter(|line| !line.starts_with("-----")).collect();
    let body = Zeroizing::new(body);
    if block.starts_with("-----BEGIN OPENSSH") {
        let wire = Zeroizing::new(STANDARD.decode(&*body).map_err(|_| DAMAGED)?);
        check_openssh(&wire)?;
    } else if body.starts_with("Proc-Type") {
        return Err(ENCRYPTED);
    }
    match age::ssh::Identity::from_buffer(block.as_bytes(), None) {
        Ok(age::ssh::Identity::Encrypted(_)) => Err(ENCRYPTED),
        Ok(age::ssh::Identity::Unsupported(age::ssh::UnsupportedKey::Type(kind)))
            if KNOWN.contains(&kind.as_str()) =>
        {
            Err(DAMAGED)
        }
        Ok(age::ssh::Identity::Unsupported(_)) => {
            Err("an SSH key of a type that age doesn't support: expected ed25519 or RSA")
        }
        Ok(identity) => Ok(identity),
        Err(_) => Err(DAMAGED),
    }
}

/// Checks the structure of an OpenSSH key. A key that fails these checks must not reach age's parser, which panics on
/// some of them.
fn check_openssh(wire: &[u8]) -> Result<(), &'static str> {
    let rest = wire.strip_prefix(MAGIC).ok_or(DAMAGED)?;
    let (cipher, rest) = field(rest).ok_or(DAMAGED)?;
    if cipher != b"none" {
        return Err(ENCRYPTED);
    }
    let after_kdf = field(rest).and_then(|(_, rest)| field(rest));
    let (_, rest) = after_kdf.ok_or(DAMAGED)?;
    let (public, rest) = rest.get(4..).and_then(field).ok_or(DAMAGED)?;
    let (private, _) = field(rest).ok_or(DAMAGED)?;
    let numbers = private.get(8..).ok_or(DAMAGED)?;
    if has_zeros(public) || has_zeros(numbers) {
        return Err(DAMAGED);
    }
    Ok(())
}

/// Returns whether a field is a number that consists of zeros only: age's parser reads beyond the end of such a
/// number.
fn has_zeros(wire: &[u8]) -> bool {
    let mut rest = wire;
    while let Some((bytes, after)) = field(rest) {
        if !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0) {
            return true;
        }
        rest = after;
    }
    false
}

/// Splits off one field of SSH's wire format: its length as 4 bytes, then its bytes.
fn field(wire: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = wire.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (length <= rest.len()).then(|| rest.split_at(length))
}

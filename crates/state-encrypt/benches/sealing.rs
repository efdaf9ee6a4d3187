//! Compares the speed of sealing with one age file per value, and with the bare cipher: `cargo bench -p state-encrypt`.
//!
//! Seals 10,000 values of 64 bytes, as secret outputs of entries, with new values in every round: once ten values per
//! entry, once one value per entry. The times include selecting the secrets, sealing them and encoding the entry. age
//! encrypts bare values for one X25519 recipient. The bare cipher is XChaCha20-Poly1305 with random nonces and as many bytes of
//! associated data as a sealed value has.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that prints its results"
)]

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rustix::time::{ClockId, clock_gettime};
use state_core::head::SealingPolicy;
use state_core::testkit::clock::SeededEntropy;
use state_core::{Address, Entropy, Entry, Json, Lineage, Properties, Uid};
use state_encrypt::{DataKey, Sealer, generate_identity};
use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

const VALUES: usize = 10_000;
const ROUNDS: u32 = 5;
/// The minimum speed-up over age for ten values per entry.
const FACTOR: f64 = 20.0;
/// The number of bytes of associated data of a value in these entries.
const ASSOCIATED: usize = 109;
/// The maximum time beside the bare cipher.
const OVERHEAD: f64 = 1.5;

fn main() {
    let entropy = SeededEntropy::new(1);
    let rounds: Vec<Vec<String>> = (0..ROUNDS).map(|_| values(&entropy)).collect();
    let identity = generate_identity();
    let age = age_files(&rounds, &identity);
    let bare = bare(&rounds, &entropy);
    println!("{VALUES} values of 64 bytes, the best of {ROUNDS} rounds; values per second:");
    let mut is_fast = true;
    for (per_entry, must) in [(10, true), (1, false)] {
        let ours = sealed(&rounds, per_entry);
        for (name, age, bare, ours) in [("seal", age.0, bare.0, ours.0), ("open", age.1, bare.1, ours.1)] {
            let rate = |time: Duration| VALUES as f64 / time.as_secs_f64();
            let factor = age.as_secs_f64() / ours.as_secs_f64();
            println!(
                "{name}, {per_entry:>2} per entry: age {:>7.0}, bare cipher {:>8.0}, sealer {:>8.0}, factor {factor:.1}, \
                 {:.2} times the time of the bare cipher (at most {OVERHEAD})",
                rate(age),
                rate(bare),
                rate(ours),
                ours.as_secs_f64() / bare.as_secs_f64()
            );
            is_fast &= !must || factor >= FACTOR;
        }
    }
    if !is_fast {
        println!("FAILED: sealing is less than {FACTOR} times faster than age");
        std::process::exit(1);
    }
}

/// Generates values: 32 random bytes each, in hexadecimal.
fn values(entropy: &dyn Entropy) -> Vec<String> {
    let one = || {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    (0..VALUES).map(|_| one()).collect()
}

fn entries(values: &[String], per_entry: usize) -> Vec<Entry> {
    let one = |(index, values): (usize, &[String])| {
        let mut entry = Entry::leaf(Address::new(format!("secret.{index}")).unwrap(), "secret");
        let mut bits = [0; 16];
        bits[..8].copy_from_slice(&(index as u64).to_le_bytes());
        entry.uid = Some(Uid::from_bits(bits));
        let fields: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(field, value)| format!(r#""value{field}":"{value}""#))
            .collect();
        let outputs = Json::parse(&format!("{{{}}}", fields.join(","))).unwrap();
        entry.outputs = Properties::new(outputs);
        entry.sensitive_outputs = (0..per_entry).map(|field| format!("value{field}")).collect();
        entry
    };
    values.chunks(per_entry).enumerate().map(one).collect()
}

fn sealed(rounds: &[Vec<String>], per_entry: usize) -> (Duration, Duration) {
    let key = Arc::new(DataKey::generate(&SeededEntropy::new(2)));
    let sealer = Sealer::new(key, Lineage::from_bits([1; 16]), SealingPolicy::Sensitive);
    best(rounds.iter().map(|values| {
        let plain = entries(values, per_entry);
        let seal = |entry| sealer.seal_entry(entry).unwrap();
        let (sealed, sealing) = timed(|| plain.iter().map(seal).collect::<Vec<_>>());
        let open = |entry| sealer.open_entry(entry).unwrap();
        let (open, opening) = timed(|| sealed.iter().map(open).collect::<Vec<_>>());
        assert!(plain == open, "opened values differ from the sealed ones");
        (sealing, opening)
    }))
}

fn bare(rounds: &[Vec<String>], entropy: &dyn Entropy) -> (Duration, Duration) {
    let mut key = [0; 32];
    entropy.fill(&mut key);
    let cipher = XChaCha20Poly1305::new(&key.into());
    let mut associated = [0; ASSOCIATED];
    entropy.fill(&mut associated);
    best(rounds.iter().map(|values| {
        let nonces: Vec<XNonce> = values
            .iter()
            .map(|_| {
                let mut nonce = [0; 24];
                entropy.fill(&mut nonce);
                nonce.into()
            })
            .collect();
        let texts = || values.iter().zip(&nonces);
        let encrypt = |(value, nonce): (&String, &XNonce)| {
            let (msg, aad) = (value.as_bytes(), associated.as_slice());
            cipher.encrypt(nonce, Payload { msg, aad }).unwrap()
        };
        let (sealed, sealing) = timed(|| texts().map(encrypt).collect::<Vec<_>>());
        let decrypt = |(value, nonce): (&Vec<u8>, &XNonce)| {
            let (msg, aad) = (value.as_slice(), associated.as_slice());
            cipher.decrypt(nonce, Payload { msg, aad }).unwrap()
        };
        let (opened, opening) = timed(|| sealed.iter().zip(&nonces).map(decrypt).collect::<Vec<_>>());
        let is_same = opened
            .iter()
            .zip(values)
            .all(|(one, value)| one == value.as_bytes());
        assert!(is_same, "opened values differ from the sealed ones");
        (sealing, opening)
    }))
}

fn age_files(rounds: &[Vec<String>], identity: &state_encrypt::GeneratedIdentity) -> (Duration, Duration) {
    let recipient: age::x25519::Recipient = identity.recipient().parse().unwrap();
    let secret = identity.file().lines().nth(1).unwrap();
    let secret: age::x25519::Identity = secret.parse().unwrap();
    best(rounds.iter().map(|values| {
        let (files, wrapping) = timed(|| {
            values
                .iter()
                .map(|value| encrypt(&recipient, value))
                .collect::<Vec<_>>()
        });
        let ((), unwrapping) = timed(|| {
            for file in &files {
                black_box(decrypt(&secret, file));
            }
        });
        (wrapping, unwrapping)
    }))
}

fn encrypt(recipient: &age::x25519::Recipient, value: &str) -> Vec<u8> {
    let recipients = std::iter::once(recipient as &dyn age::Recipient);
    let mut file = Vec::new();
    let mut output = age::Encryptor::with_recipients(recipients)
        .unwrap()
        .wrap_output(&mut file)
        .unwrap();
    output.write_all(value.as_bytes()).unwrap();
    output.finish().unwrap();
    file
}

fn decrypt(identity: &age::x25519::Identity, file: &[u8]) -> Vec<u8> {
    let decryptor = age::Decryptor::new_buffered(file).unwrap();
    let mut reader = decryptor
        .decrypt(std::iter::once(identity as &dyn age::Identity))
        .unwrap();
    let mut value = Vec::new();
    reader.read_to_end(&mut value).unwrap();
    value
}

fn best(times: impl Iterator<Item = (Duration, Duration)>) -> (Duration, Duration) {
    times.fold((Duration::MAX, Duration::MAX), |best, time| {
        (best.0.min(time.0), best.1.min(time.1))
    })
}

/// Measures the processor time of this thread, so that other processes don't distort the result.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
    };
    let start = now();
    let result = black_box(work());
    (result, now() - start)
}

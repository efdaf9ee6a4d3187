//! Compares the speed of sealing with one age file per value, and with the bare cipher: `cargo bench -p state-encrypt`.
//!
//! Seals 10,000 values of 64 bytes, as secret outputs of entries, with new values in every round: once ten values per
//! entry, once one value per entry. The times include selecting the secrets, sealing them and encoding the entry. The bare
//! cipher is XChaCha20-Poly1305 with random nonces and as many bytes of associated data as a sealed value has. The order of
//! the contenders rotates from round to round; each ratio is computed in each round, and its median is shown with its range.
//! age encrypts the bare values for one X25519 recipient, in the first rounds only.

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
const ROUNDS: usize = 20;
/// The rounds in which age takes part.
const AGE_ROUNDS: usize = 3;
/// The minimum speed-up over age for ten values per entry.
const FACTOR: f64 = 20.0;
/// The number of bytes of associated data of a value in these entries.
const ASSOCIATED: usize = 109;
/// The maximum time beside the bare cipher.
const OVERHEAD: f64 = 1.5;

/// The times of all values, sealed and opened.
type Times = [Duration; 2];

/// Seals and opens all values.
type Contender<'a> = &'a dyn Fn(&[String]) -> Times;

fn main() {
    let entropy = SeededEntropy::new(1);
    let identity = generate_identity();
    let contenders: [Contender<'_>; 3] = [
        &|values| bare(values, &entropy),
        &|values| sealed(values, 10),
        &|values| sealed(values, 1),
    ];
    let mut times = [const { Vec::new() }; 3];
    let mut age = Vec::new();
    for round in 0..ROUNDS {
        let values = values(&entropy);
        for turn in 0..contenders.len() {
            let at = (turn + round) % contenders.len();
            times[at].push(contenders[at](&values));
        }
        if round < AGE_ROUNDS {
            age.push(age_files(&values, &identity));
        }
    }
    let [bare, ten, one] = times;
    println!("{VALUES} values of 64 bytes, the median of {ROUNDS} rounds; values per second:");
    let mut is_fast = true;
    for (per_entry, ours, must) in [(10, ten, true), (1, one, false)] {
        for (at, name) in ["seal", "open"].into_iter().enumerate() {
            let rate = |times: &[Times]| {
                let rates = times.iter().map(|time| VALUES as f64 / time[at].as_secs_f64());
                median(rates)[1]
            };
            let factor = rate(&ours) / rate(&age);
            let ratios = ours.iter().zip(&bare);
            let [low, middle, high] =
                median(ratios.map(|(ours, bare)| ours[at].as_secs_f64() / bare[at].as_secs_f64()));
            println!(
                "{name}, {per_entry:>2} per entry: age {:>7.0}, bare cipher {:>8.0}, sealer {:>8.0}, factor {factor:.1}, \
                 {middle:.2} ({low:.2} to {high:.2}) times the time of the bare cipher (at most {OVERHEAD})",
                rate(&age),
                rate(&bare),
                rate(&ours),
            );
            is_fast &= !must || factor >= FACTOR;
        }
    }
    if !is_fast {
        println!("FAILED: sealing is less than {FACTOR} times faster than age");
        std::process::exit(1);
    }
}

/// The least value, the median and the greatest value.
fn median(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [0, values.len() / 2, values.len() - 1].map(|at| values[at])
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

fn sealed(values: &[String], per_entry: usize) -> Times {
    let key = Arc::new(DataKey::generate(&SeededEntropy::new(2)));
    let sealer = Sealer::new(key, Lineage::from_bits([1; 16]), SealingPolicy::Sensitive);
    let plain = entries(values, per_entry);
    let seal = |entry| sealer.seal_entry(entry).unwrap();
    let (sealed, sealing) = timed(|| plain.iter().map(seal).collect::<Vec<_>>());
    let open = |entry| sealer.open_entry(entry).unwrap();
    let (open, opening) = timed(|| sealed.iter().map(open).collect::<Vec<_>>());
    assert!(plain == open, "opened values differ from the sealed ones");
    [sealing, opening]
}

fn bare(values: &[String], entropy: &dyn Entropy) -> Times {
    let mut key = [0; 32];
    entropy.fill(&mut key);
    let cipher = XChaCha20Poly1305::new(&key.into());
    let mut associated = [0; ASSOCIATED];
    entropy.fill(&mut associated);
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
    [sealing, opening]
}

fn age_files(values: &[String], identity: &state_encrypt::GeneratedIdentity) -> Times {
    let recipient: age::x25519::Recipient = identity.recipient().parse().unwrap();
    let secret = identity.file().lines().nth(1).unwrap();
    let secret: age::x25519::Identity = secret.parse().unwrap();
    let wrap = || {
        let files = values.iter().map(|value| encrypt(&recipient, value));
        files.collect::<Vec<_>>()
    };
    let (files, wrapping) = timed(wrap);
    let unwrap = || {
        for file in &files {
            black_box(decrypt(&secret, file));
        }
    };
    let ((), unwrapping) = timed(unwrap);
    [wrapping, unwrapping]
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

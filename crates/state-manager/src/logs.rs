//! `logs/`: what was said during each update, stored when it ends, and asked for later.

use crate::horizon::Horizon;
use crate::keys;
use crate::snapshots::blocking;
use crate::stack::Stack;
use bytes::Bytes;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::sealing::StackKey;
use state_core::{
    Address, Crypter, Entropy, Error, LogLevel, LogLine, Result, Serial, Timestamp, Writer, sealed,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of lines that one update's log holds.
const MAX_LOG: usize = 32 << 20;

/// The most bytes that a stored log may have, uncompressed. Readers refuse more before they allocate.
const MAX_STORED: usize = MAX_LOG + (1 << 20);

const LEVEL: i32 = 1;

/// What stands for a message that stays sealed.
const SEALED: &str = "(sealed)";

/// Which lines are wanted. Each condition narrows; the default takes all.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// About this entry, or one below it: `module.net` takes `module.net.vpc` too.
    pub address: Option<Address>,
    /// At least of this level.
    pub level: Option<LogLevel>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
    /// Of the update that made the revision with this serial.
    pub update: Option<Serial>,
    /// The last so many.
    pub limit: Option<usize>,
    /// Open what is sealed, with the identities at hand. Else a sealed message is `(sealed)`.
    pub reveal: bool,
}

/// A line with the update that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLine {
    /// The serial of the revision that the update made.
    pub update: Serial,
    /// What was said.
    pub line: LogLine,
}

impl Stack {
    /// The lines of ended updates that fit a query, oldest update first, each update's in the order in which they
    /// came.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` is no moment; `Corrupt` when a stored log is damaged.
    pub async fn logs(&self, query: &LogQuery) -> Result<Vec<StoredLine>> {
        let mut logs = self.log_walk(query).await?;
        let mut found = Vec::new();
        while let Some(lines) = logs.next().await? {
            found.extend(lines);
        }
        if let Some(limit) = query.limit {
            found.drain(..found.len().saturating_sub(limit));
        }
        Ok(found)
    }

    /// As [`Stack::logs`], one update at a time: all of them are never held at once. The query's limit doesn't count.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` is no moment.
    pub async fn log_walk(&self, query: &LogQuery) -> Result<Logs> {
        let asked = Asked::new(query)?;
        let names = self.backend().list(self.lineage(), ObjectKind::Log).await?;
        let serials = names.into_iter().filter_map(|name| match name {
            ObjectName::Log(serial) => Some(serial),
            _ => None,
        });
        let head = self.backend().read_head(self.lineage()).await?;
        let horizon = Horizon::of(&head);
        let wanted = serials
            .filter(|serial| query.update.is_none_or(|update| update == *serial) && !horizon.hides(*serial));
        Ok(Logs {
            stack: self.clone(),
            serials: wanted.collect(),
            asked,
            sealed: head.keys.is_some(),
            crypters: BTreeMap::new(),
        })
    }
}

/// The logs of a stack's updates that fit a query, oldest first.
#[derive(Debug)]
pub struct Logs {
    stack: Stack,
    serials: BTreeSet<Serial>,
    asked: Asked,
    /// Whether the stack has keys; else nothing of it is sealed, whatever looks like it.
    sealed: bool,
    /// What opens lines, by the key's first digits; none for a key that can't be had here.
    crypters: BTreeMap<String, Option<Arc<dyn Crypter>>>,
}

impl Logs {
    /// The lines of the next update, perhaps none; none after the last update.
    ///
    /// # Errors
    /// `Corrupt` when its log is damaged; a call after that goes on with the next one.
    ///
    /// # Cancellation
    /// A call that is dropped may skip an update.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredLine>>> {
        let Some(update) = self.serials.pop_first() else {
            return Ok(None);
        };
        let (name, lineage) = (ObjectName::Log(update), self.stack.lineage());
        let bytes = self.stack.backend().read(lineage, &name).await?;
        let object = format!("stack {lineage}: {name}");
        let mut lines = blocking(move || unpack(&object, &bytes)).await??;
        lines.retain(|line| self.asked.takes(line));
        if self.sealed {
            for line in &mut lines {
                self.open(line).await?;
            }
        }
        let stored = lines.into_iter().map(|line| StoredLine { update, line });
        Ok(Some(stored.collect()))
    }
}

impl Logs {
    async fn open(&mut self, line: &mut LogLine) -> Result<()> {
        let Some(short) = sealed::key_of_text(&line.message).map(str::to_owned) else {
            return Ok(());
        };
        if self.asked.reveal && !self.crypters.contains_key(&short) {
            let entropy = Arc::clone(&self.stack.environment().entropy);
            let key = keys::by_digits(&self.stack, &short).await?;
            let crypter = key.and_then(|key| key.crypter(entropy).ok());
            self.crypters.insert(short.clone(), crypter);
        }
        let crypter = self.crypters.get(&short).and_then(Option::as_ref);
        let token = line.message.strip_prefix(sealed::TEXT_PREFIX);
        let opened = crypter
            .zip(token)
            .and_then(|(crypter, token)| crypter.decrypt(&context(line), token).ok());
        line.message = match opened {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => SEALED.to_owned(),
        };
        Ok(())
    }
}

/// A query whose moments were understood.
#[derive(Debug)]
struct Asked {
    address: Option<Address>,
    level: Option<LogLevel>,
    since: Option<jiff::Timestamp>,
    until: Option<jiff::Timestamp>,
    reveal: bool,
}

impl Asked {
    fn new(query: &LogQuery) -> Result<Self> {
        let moment =
            |name: &str, given: &Option<Timestamp>| match given {
                None => Ok(None),
                Some(given) => given.as_str().parse().map(Some).map_err(|_| {
                    Error::invalid(format!("`{name}` of the query"), "it is no RFC 3339 moment")
                }),
            };
        Ok(Self {
            address: query.address.clone(),
            level: query.level,
            since: moment("since", &query.since)?,
            until: moment("until", &query.until)?,
            reveal: query.reveal,
        })
    }

    fn takes(&self, line: &LogLine) -> bool {
        let about = match (&self.address, &line.address) {
            (None, _) => true,
            (Some(wanted), Some(address)) => is_below(wanted.as_str(), address.as_str()),
            (Some(_), None) => false,
        };
        about && self.level.is_none_or(|least| line.level >= least) && self.in_time(line)
    }

    /// A line without an understood time is in no span.
    fn in_time(&self, line: &LogLine) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let Ok(time) = line.time.as_str().parse::<jiff::Timestamp>() else {
            return false;
        };
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }
}

/// Whether an address is this one, or begins with it at a border.
fn is_below(wanted: &str, address: &str) -> bool {
    address
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', '[']))
}

/// How what was said is stored. Providers quote what they like: on a sealed stack all of it is sealed.
#[derive(Debug, Default)]
pub(crate) enum Voice {
    #[default]
    Plain,
    Sealed(Arc<dyn Crypter>),
    /// The stack is sealed, with a key that can't seal lines.
    Unheard,
}

impl Voice {
    pub(crate) fn of(key: Option<&dyn StackKey>, entropy: &Arc<dyn Entropy>) -> Self {
        match key.map(|key| key.crypter(Arc::clone(entropy))) {
            None => Self::Plain,
            Some(Ok(crypter)) => Self::Sealed(crypter),
            Some(Err(_)) => Self::Unheard,
        }
    }

    fn message(&self, line: &LogLine) -> String {
        let sealed = match self {
            Self::Plain => return line.message.clone(),
            Self::Sealed(crypter) => crypter.encrypt(&context(line), line.message.as_bytes()).ok(),
            Self::Unheard => None,
        };
        match sealed {
            Some(token) => format!("{}{token}", sealed::TEXT_PREFIX),
            None => "(left out: the stack's key can't seal it)".to_owned(),
        }
    }
}

/// What a line's message is bound to.
fn context(line: &LogLine) -> String {
    let address = line.address.as_ref().map_or("", Address::as_str);
    format!("log {} {address}", line.time.as_str())
}

/// The lines of an open update.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    lines: Mutex<Lines>,
    voice: Voice,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    left_out: u64,
    last: Option<Timestamp>,
}

impl Buffer {
    pub(crate) fn new(voice: Voice) -> Self {
        Self {
            lines: Mutex::default(),
            voice,
        }
    }

    pub(crate) fn push(&self, line: &LogLine) {
        let stored = LogLine {
            message: self.voice.message(line),
            ..line.clone()
        };
        // Strings and names only: this always serialises.
        let encoded = serde_json::to_vec(&stored).unwrap_or_default();
        let mut lines = lock(&self.lines);
        lines.last = Some(line.time.clone());
        if lines.bytes.len() + encoded.len() >= MAX_LOG {
            lines.left_out += 1;
            return;
        }
        lines.bytes.extend_from_slice(&encoded);
        lines.bytes.push(b'\n');
    }

    fn take(&self) -> Vec<u8> {
        let Lines {
            mut bytes,
            left_out,
            last,
        } = std::mem::take(&mut *lock(&self.lines));
        if let (true, Some(time)) = (left_out > 0, last) {
            let message = format!("{left_out} line(s) more were said than a log holds");
            let line = LogLine::new(time, LogLevel::Warning, message);
            bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
            bytes.push(b'\n');
        }
        bytes
    }
}

/// Logs that are still to be stored.
#[derive(Debug, Default)]
pub(crate) struct Unsaved {
    logs: Mutex<Vec<(Serial, Bytes)>>,
}

impl Unsaved {
    /// Takes the lines of an update that ended.
    pub(crate) fn add(&self, serial: Serial, buffer: &Buffer) -> std::io::Result<()> {
        let lines = buffer.take();
        if !lines.is_empty() {
            let packed = zstd::bulk::compress(&lines, LEVEL)?;
            lock(&self.logs).push((serial, packed.into()));
        }
        Ok(())
    }

    /// Stores all of them; what can't be stored stays.
    pub(crate) async fn store(&self, writer: &dyn Writer) -> Result<()> {
        loop {
            let Some((serial, bytes)) = lock(&self.logs).first().cloned() else {
                return Ok(());
            };
            writer.create(&ObjectName::Log(serial), bytes).await?;
            lock(&self.logs).retain(|(stored, _)| *stored != serial);
        }
    }
}

fn unpack(object: &str, packed: &[u8]) -> Result<Vec<LogLine>> {
    let damaged = |offset, reason| Error::corrupt(object, offset, reason);
    let lines = zstd::bulk::decompress(packed, MAX_STORED)
        .map_err(|_| damaged(0, "it can't be decompressed, or is too large"))?;
    let mut offset = 0;
    let mut read = Vec::new();
    for line in lines.split_inclusive(|&b| b == b'\n') {
        let parsed =
            serde_json::from_slice(line).map_err(|_| damaged(offset, "a line that isn't one of a log"))?;
        read.push(parsed);
        offset += line.len() as u64;
    }
    Ok(read)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

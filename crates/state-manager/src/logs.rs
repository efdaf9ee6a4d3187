//! `logs/`: what was said during each update, stored when it ends, and asked for later.

use crate::horizon::Horizon;
use crate::snapshots::blocking;
use crate::stack::Stack;
use bytes::Bytes;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::{Address, Error, LogLevel, LogLine, Result, Serial, Timestamp, Writer};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of lines that one update's log holds.
const MAX_LOG: usize = 32 << 20;

/// The most bytes that a stored log may have, uncompressed. Readers refuse more before they allocate.
const MAX_STORED: usize = MAX_LOG + (1 << 20);

const LEVEL: i32 = 1;

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
        let horizon = Horizon::of(&self.backend().read_head(self.lineage()).await?);
        let wanted = serials
            .filter(|serial| query.update.is_none_or(|update| update == *serial) && !horizon.hides(*serial));
        Ok(Logs {
            stack: self.clone(),
            serials: wanted.collect(),
            asked,
        })
    }
}

/// The logs of a stack's updates that fit a query, oldest first.
#[derive(Debug)]
pub struct Logs {
    stack: Stack,
    serials: BTreeSet<Serial>,
    asked: Asked,
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
        let stored = lines.into_iter().map(|line| StoredLine { update, line });
        Ok(Some(stored.collect()))
    }
}

/// A query whose moments were understood.
#[derive(Debug)]
struct Asked {
    address: Option<Address>,
    level: Option<LogLevel>,
    since: Option<jiff::Timestamp>,
    until: Option<jiff::Timestamp>,
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

/// The lines of an open update.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    left_out: u64,
    last: Option<Timestamp>,
}

impl Buffer {
    pub(crate) fn push(&self, line: &LogLine) {
        // Strings and names only: this always serialises.
        let encoded = serde_json::to_vec(line).unwrap_or_default();
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

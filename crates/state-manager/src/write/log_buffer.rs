//! Buffer for the log of an open update. Lines are sealed one by one and stored when the update ends.

use crate::objects::logs::{MAX_LOG, context};
use bytes::Bytes;
use state_core::backend::ObjectName;
use state_core::sealing::StackKey;
use state_core::{Crypter, Entropy, LogLevel, LogLine, Result, Serial, Timestamp, Writer, sealed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Compression level for stored logs: the fastest.
const LEVEL: i32 = 1;

/// How log messages are stored. Providers may quote secrets in any message, so a sealed stack seals all of them.
#[derive(Debug, Default)]
pub(crate) enum LogSealing {
    #[default]
    Plain,
    Sealed(Arc<dyn Crypter>),
    /// The stack is sealed, but its key can't seal log lines: messages are left out.
    Unavailable,
}

impl LogSealing {
    pub(crate) fn of(key: Option<&dyn StackKey>, entropy: &Arc<dyn Entropy>) -> Self {
        match key.map(|key| key.crypter(Arc::clone(entropy))) {
            None => Self::Plain,
            Some(Ok(crypter)) => Self::Sealed(crypter),
            Some(Err(_)) => Self::Unavailable,
        }
    }

    fn message(&self, line: &LogLine) -> String {
        let sealed = match self {
            Self::Plain => return line.message.clone(),
            Self::Sealed(crypter) => crypter.encrypt(&context(line), line.message.as_bytes()).ok(),
            Self::Unavailable => None,
        };
        match sealed {
            Some(token) => format!("{}{token}", sealed::TEXT_PREFIX),
            None => "(omitted: the stack's key can't seal log lines)".to_owned(),
        }
    }
}

/// The lines of an open update.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer {
    lines: Mutex<Lines>,
    sealing: LogSealing,
}

#[derive(Debug, Default)]
struct Lines {
    /// The encoded lines, each with a newline.
    bytes: Vec<u8>,
    /// Number of lines that were dropped because the log is full.
    left_out: u64,
    /// Time of the last line, dropped lines included.
    last: Option<Timestamp>,
}

impl LogBuffer {
    pub(crate) fn new(sealing: LogSealing) -> Self {
        Self {
            lines: Mutex::default(),
            sealing,
        }
    }

    pub(crate) fn push(&self, line: &LogLine) {
        let stored = LogLine {
            message: self.sealing.message(line),
            ..line.clone()
        };
        // A log line consists of strings and enums only, so its serialization can't fail.
        let encoded = serde_json::to_vec(&stored).unwrap_or_default();
        let mut lines = lock(&self.lines);
        lines.last = Some(line.time.clone());
        if lines.bytes.len() + encoded.len() >= MAX_LOG {
            // Lines beyond the limit are counted, not kept: a provider that logs without end must not exhaust the
            // memory.
            lines.left_out += 1;
            return;
        }
        lines.bytes.extend_from_slice(&encoded);
        lines.bytes.push(b'\n');
    }

    /// The stored form of the lines; none if there are no lines.
    pub(crate) fn packed(&self) -> std::io::Result<Option<Bytes>> {
        let mut lines = lock(&self.lines);
        let left_out = std::mem::take(&mut lines.left_out);
        if let (true, Some(time)) = (left_out > 0, lines.last.clone()) {
            let noun = if left_out == 1 { "line was" } else { "lines were" };
            let message = format!("{left_out} more {noun} dropped: the log is full");
            let line = LogLine::new(time, LogLevel::Warning, message);
            lines.bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
            lines.bytes.push(b'\n');
        }
        if lines.bytes.is_empty() {
            return Ok(None);
        }
        let packed = zstd::bulk::compress(&lines.bytes, LEVEL)?;
        Ok(Some(packed.into()))
    }
}

/// Logs of ended updates that are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct UnsavedLogs {
    logs: Mutex<Vec<(Serial, Bytes)>>,
}

impl UnsavedLogs {
    /// Adds the packed log of an ended update.
    pub(crate) fn add(&self, serial: Serial, log: Bytes) {
        lock(&self.logs).push((serial, log));
    }

    /// Stores all logs; those that can't be stored stay in the list.
    pub(crate) async fn store(&self, writer: &dyn Writer) -> Result<()> {
        loop {
            let Some((serial, bytes)) = lock(&self.logs).first().cloned() else {
                return Ok(());
            };
            // Two callers may store the same log at once: creating an object again with equal bytes succeeds.
            writer.create(&ObjectName::Log(serial), bytes).await?;
            // Remove the log only after it is stored: if storing fails, the log stays in the list, and closing the
            // session stores it.
            lock(&self.logs).retain(|(stored, _)| *stored != serial);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

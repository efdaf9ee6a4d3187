//! Queries over `logs/`: the lines that engine and providers logged during each ended update.
//!
//! A log counts only because the record that ended its update names it by digest; a file that no revision names is
//! ignored.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated};
use crate::keys::wrapped;
use crate::objects::document::RevisionRecord;
use crate::objects::logs::context;
use crate::read::history::Revisions;
use crate::read::tip::Tip;
use crate::read::view::View;
use state_core::journal::LogRef;
use state_core::{Address, Crypter, Error, KeyId, LogLevel, LogLine, Result, Serial, Timestamp, sealed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Replacement for a message that stays sealed.
const SEALED: &str = "(sealed)";

/// Conditions on log lines. Each one narrows the result; the default matches all lines.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// The resource of the line, or a parent of it: `module.net` also matches `module.net.vpc`.
    pub address: Option<Address>,
    /// The minimum level of the line.
    pub level: Option<LogLevel>,
    /// The earliest time of the line, inclusive.
    pub since: Option<Timestamp>,
    /// The latest time of the line, exclusive.
    pub until: Option<Timestamp>,
    /// The serial of the revision that the line's update made.
    pub update: Option<Serial>,
    /// The maximum number of lines: only the last ones are returned.
    pub limit: Option<usize>,
    /// Whether to open sealed messages with the available identities. Otherwise a sealed message is `(sealed)`.
    pub reveal: bool,
}

/// A log line with the update that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLine {
    /// The serial of the revision that the update made.
    pub update: Serial,
    /// The line as it was logged.
    pub line: LogLine,
}

impl View {
    /// The log lines of ended updates that match a query: oldest update first, each update's lines in the order in
    /// which they were logged.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` isn't a timestamp; `Corrupt` when a stored log is damaged.
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

    /// As [`Self::logs`], but one update at a time, so that memory holds one log only. Ignores the query's limit.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` isn't a timestamp.
    pub async fn log_walk(&self, query: &LogQuery) -> Result<Logs> {
        Logs::of(self.context(), self.tip(), query).await
    }
}

/// The logs of a stack's updates that match a query, oldest first.
#[derive(Debug)]
pub struct Logs {
    stack: StackContext,
    /// The updates with a log that were not read yet, newest first.
    unread: Vec<LoggedUpdate>,
    parsed: ParsedQuery,
    /// The keys that the stack has had. Without any, no message is sealed, even if it looks sealed.
    keys: Vec<KeyId>,
    /// Crypters by the first digits of their key; none for a key that can't be opened here.
    crypters: BTreeMap<String, Option<Arc<dyn Crypter>>>,
    /// The first digits of the keys of messages that should have been opened and stayed sealed.
    unopened: BTreeSet<String>,
    /// The updates whose logs are missing.
    missing: Vec<Serial>,
    /// Why some updates aren't known; none if all are.
    damaged: Option<Error>,
}

impl Logs {
    pub(super) async fn of(stack: &StackContext, tip: &Tip, query: &LogQuery) -> Result<Self> {
        let parsed = ParsedQuery::new(query)?;
        let keys = wrapped::keys_of(&tip.head);
        let LoggedUpdates { updates, damaged } = logged(Revisions::of(stack, tip), query.update).await?;
        Ok(Self {
            stack: stack.clone(),
            unread: updates,
            damaged,
            parsed,
            keys,
            crypters: BTreeMap::new(),
            unopened: BTreeSet::new(),
            missing: Vec::new(),
        })
    }

    /// The keys of the messages that the query wanted to open and that stayed sealed, each as the first hexadecimal
    /// digits of its id. Covers the updates that [`next`](Self::next) has returned.
    ///
    /// A caller who prints the lines should print these too: a user with write access to the store can delete or damage the
    /// files of an earlier key, and the messages alone don't show whether that happened.
    pub fn unopened_keys(&self) -> impl Iterator<Item = &str> {
        self.unopened.iter().map(String::as_str)
    }

    /// The updates whose logs are missing, of those that [`next`](Self::next) has returned, each as the serial of its
    /// revision. The query may exclude the line that reports a missing log, so a caller who prints the lines should print
    /// these too: a user with write access to the store can delete a log.
    pub fn missing(&self) -> &[Serial] {
        &self.missing
    }

    /// The matching lines of the next update, possibly an empty list; `None` after the last update.
    ///
    /// # Errors
    /// `Corrupt` when the log is damaged or isn't the one that the revision names. The next call continues with the
    /// next log. After the last one, `Corrupt` when a part of the history is damaged, so that not all updates are known.
    ///
    /// # Cancellation
    /// Dropping the future may skip an update.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredLine>>> {
        let Some(LoggedUpdate { update, log, end }) = self.unread.pop() else {
            return self.damaged.take().map_or(Ok(None), Err);
        };
        let mut lines = match authenticate::log(&self.stack, update, log).await? {
            Some(lines) => lines.into_value(),
            None => {
                self.missing.push(update);
                vec![missing(end)]
            }
        };
        lines.retain(|line| self.parsed.takes(line));
        if !self.keys.is_empty() {
            for line in &mut lines {
                self.open(line).await?;
            }
        }
        let stored = lines.into_iter().map(|line| StoredLine { update, line });
        Ok(Some(stored.collect()))
    }

    async fn open(&mut self, line: &mut LogLine) -> Result<()> {
        let Some(short) = sealed::key_of_text(&line.message).map(str::to_owned) else {
            return Ok(());
        };
        if self.parsed.query.reveal && !self.crypters.contains_key(&short) {
            let entropy = Arc::clone(&self.stack.environment().entropy);
            let key = wrapped::by_digits(&self.stack, &self.keys, &short).await?;
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
            None => {
                if self.parsed.query.reveal {
                    self.unopened.insert(short);
                }
                SEALED.to_owned()
            }
        };
        Ok(())
    }
}

/// An update with a log.
#[derive(Debug)]
struct LoggedUpdate {
    update: Serial,
    log: Authenticated<LogRef>,
    /// Time of the update's end.
    end: Timestamp,
}

/// The updates with a log, as far as the history is intact.
struct LoggedUpdates {
    /// The updates, with the newest one first.
    updates: Vec<LoggedUpdate>,
    /// The first error about a part of the history that is lost.
    damaged: Option<Error>,
}

/// The updates with a log; only the one with this serial, if a serial is given.
async fn logged(mut revisions: Revisions, only: Option<Serial>) -> Result<LoggedUpdates> {
    let mut updates = Vec::new();
    let mut damaged = None;
    loop {
        let document = match revisions.next_readable_document().await {
            Ok(Some(document)) => document,
            Ok(None) => break,
            Err(error @ Error::Corrupt { .. }) => {
                damaged.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let serial = document.revision.serial();
        if only.is_some_and(|only| serial < only) {
            break;
        }
        if let RevisionRecord::UpdateEnd(mark) = &document.made
            && let Some(log) = document.log()
            && only.is_none_or(|only| only == serial)
        {
            let end = mark.update.end.as_ref().unwrap_or(&mark.update.start).clone();
            updates.push(LoggedUpdate {
                update: serial,
                log,
                end,
            });
        }
    }
    // The wanted update was found, so the lost part doesn't matter.
    let is_complete = only.is_some() && !updates.is_empty();
    Ok(LoggedUpdates {
        updates,
        damaged: damaged.filter(|_| !is_complete),
    })
}

/// A line that reports a missing log. If a writer crashes after it ended an update and before it stored the log, the
/// log is missing too, so a missing log isn't an error.
fn missing(end: Timestamp) -> LogLine {
    let message =
        "the log of this update is missing: it was deleted, or the writer crashed before it was stored";
    LogLine::new(end, LogLevel::Warning, message.to_owned())
}

/// A query with parsed times.
#[derive(Debug)]
struct ParsedQuery {
    query: LogQuery,
    since: Option<jiff::Timestamp>,
    until: Option<jiff::Timestamp>,
}

impl ParsedQuery {
    fn new(query: &LogQuery) -> Result<Self> {
        let moment = |name: &str, given: &Option<Timestamp>| match given {
            None => Ok(None),
            Some(given) => given.as_str().parse().map(Some).map_err(|_| {
                Error::invalid(
                    format!("`{name}` of the query"),
                    "it is not an RFC 3339 timestamp",
                )
            }),
        };
        Ok(Self {
            query: query.clone(),
            since: moment("since", &query.since)?,
            until: moment("until", &query.until)?,
        })
    }

    fn takes(&self, line: &LogLine) -> bool {
        let about = match (&self.query.address, &line.address) {
            (None, _) => true,
            (Some(wanted), Some(address)) => is_below(wanted.as_str(), address.as_str()),
            (Some(_), None) => false,
        };
        about && self.query.level.is_none_or(|least| line.level >= least) && self.in_time(line)
    }

    /// Whether a line is within the time range. A line whose time can't be parsed is in no range.
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

/// Whether an address equals `wanted`, or begins with `wanted` and a separator.
fn is_below(wanted: &str, address: &str) -> bool {
    address
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', '[']))
}

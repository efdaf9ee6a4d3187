//! Acquires and releases the lock of a client, whose id the client chose.

use super::{LockOwner, SessionError, Sessions};
use state_core::backend::{ClientLock, Holder, LockStatus};
use state_core::{Error, StackName, Timestamp};
use state_manager::{Stack, client_lock};
use std::fmt;

/// Longest text of a lock, in bytes: the head of the stack contains it.
const MAX_TEXT: usize = 256;

/// Start of the message of each lock that a client of this crate takes.
const MESSAGE: &str = "Terraform lock";

/// Start of the part of the message that names a run.
const RUN: &str = "statectl run ";

/// The id of a client's lock: 1 to 128 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockId(String);

impl LockId {
    /// Validates an id that a client sent.
    ///
    /// # Errors
    /// [`SessionError::Invalid`] for an empty or long id, and for one with other characters.
    pub fn new(text: &str) -> Result<Self, SessionError> {
        let is_valid = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_valid {
            true => Ok(Self(text.to_owned())),
            false => Err(SessionError::Invalid(
                "lock id: it has to be 1 to 128 visible ASCII characters".to_owned(),
            )),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a run of a command: the locks that it takes end with the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// An id from random bits.
    pub fn new(random: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    /// Parses an id: 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Whether a lock was taken under this run.
    pub fn took(&self, lock: &ClientLock) -> bool {
        let Some(rest) = lock.message.strip_prefix(MESSAGE) else {
            return false;
        };
        // The reason that the client gave follows the first colon, and could name another run.
        let parts = rest.split(':').next().unwrap_or_default();
        let mut parts = parts.split(", ");
        parts.any(|part| part.strip_prefix(RUN) == Some(&self.0))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The description of a lock that a client asks for.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// Id that the client chose.
    pub id: LockId,
    /// The person, host and operation of the client.
    pub holder: Holder,
    /// Version of the client.
    pub version: String,
    /// Further reason, which may be empty.
    pub reason: String,
}

impl LockRequest {
    /// Validates the texts that a client sent. The time is that of the server, because the client's may be wrong.
    ///
    /// # Errors
    /// [`SessionError::Invalid`] for a long text, and for one with control characters.
    pub fn new(
        id: LockId,
        who: &str,
        operation: &str,
        version: &str,
        reason: &str,
        since: Timestamp,
    ) -> Result<Self, SessionError> {
        for (name, text) in [
            ("Who", who),
            ("Operation", operation),
            ("Version", version),
            ("Info", reason),
        ] {
            if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(SessionError::Invalid(format!(
                    "lock: `{name}` has control characters or more than {MAX_TEXT} bytes"
                )));
            }
        }
        let (user, host) = who.rsplit_once('@').unwrap_or((who, ""));
        Ok(Self {
            id,
            holder: Holder::new(user, host, 0, operation, Some(since)),
            version: version.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn message(&self, run: Option<&RunId>) -> String {
        let mut message = MESSAGE.to_owned();
        if !self.version.is_empty() {
            // A comma or a colon would end the part.
            message.push_str(&format!(", version {}", self.version.replace([',', ':'], " ")));
        }
        if let Some(run) = run {
            message.push_str(&format!(", {RUN}{run}"));
        }
        if !self.reason.is_empty() {
            message.push_str(&format!(": {}", self.reason));
        }
        message
    }
}

/// The version of the client and the reason in the message of a lock; empty if the message has none.
pub(crate) fn version_and_reason(message: &str) -> (&str, &str) {
    let Some(rest) = message.strip_prefix(MESSAGE) else {
        return ("", message);
    };
    let (parts, reason) = rest.split_once(": ").unwrap_or((rest, ""));
    let version = parts.split(", ").find_map(|part| part.strip_prefix("version "));
    (version.unwrap_or_default(), reason)
}

/// Whether a client of this crate took the lock with this message.
pub(super) fn is_of_client(message: &str) -> bool {
    message.starts_with(MESSAGE)
}

impl Sessions {
    /// Locks a stack for a client. Succeeds if this client has the lock already, because the answer to its first request may
    /// have been lost.
    ///
    /// # Errors
    /// [`SessionError::Held`] with the holder, if another client or a writer holds the stack.
    pub async fn lock(&self, name: &StackName, request: &LockRequest) -> Result<(), SessionError> {
        let stack = self.require(name).await?.without_client_lock();
        let status = stack.lock_status().await?;
        match self.active(status) {
            Some(held) if held.id == request.id.as_str() => return Ok(()),
            Some(held) => return Err(SessionError::held(&held)),
            None => {}
        }
        let lock = ClientLock {
            id: request.id.to_string(),
            holder: request.holder.clone(),
            message: request.message(self.run.as_ref()),
            expires: None,
        };
        match stack
            .acquire_client_lock_as(&request.holder.operation, lock)
            .await
        {
            Ok(_) => Ok(()),
            Err(Error::Locked { holder, .. }) => {
                // A repetition of this request may have been faster.
                let status = stack.lock_status().await?;
                let epoch = status.epoch;
                match self.active(status) {
                    Some(held) if held.id == request.id.as_str() => Ok(()),
                    Some(held) => Err(SessionError::held(&held)),
                    None => Err(SessionError::Held(Box::new(LockOwner {
                        id: format!("writer-at-epoch-{epoch}"),
                        holder: *holder,
                        message: String::new(),
                    }))),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Releases the lock with this id. Without an id, releases the lock of any client, if the rule allows that. Returns the
    /// released lock; none if the stack was unlocked already.
    ///
    /// # Errors
    /// [`SessionError::Conflict`] if another client holds the lock.
    pub async fn unlock(
        &self,
        name: &StackName,
        id: Option<&LockId>,
    ) -> Result<Option<ClientLock>, SessionError> {
        let Some(stack) = self.stacks.get(name).await? else {
            return Ok(None);
        };
        let Some(held) = stack.lock_status().await?.client_lock else {
            return Ok(None);
        };
        let object = format!("stack {}", name.short());
        match id {
            Some(id) if id.as_str() == held.id => {}
            Some(id) => {
                return Err(SessionError::Conflict(format!(
                    "{object}: cannot release lock {id}: lock {} is held by {}",
                    held.id, held.holder
                )));
            }
            None if self.may_force(&held.message) => {}
            None => {
                return Err(SessionError::Conflict(format!(
                    "{object}: lock {} of {} is not released without its id: use `statectl lock break --id {}`",
                    held.id, held.holder, held.id
                )));
            }
        }
        let stack = stack.without_client_lock();
        match stack.free_client_lock("unlock", &held.id).await {
            Ok(freed) => Ok(Some(freed)),
            Err(Error::Locked { .. }) => {
                // A write under this lock may still run, or its server was killed.
                let session = self.writer(&stack, Some(&LockId(held.id.clone()))).await?;
                session.close().await?;
                Ok(Some(stack.free_client_lock("unlock", &held.id).await?))
            }
            // Another request released the lock at the same time.
            Err(Error::Conflict { .. }) if stack.lock_status().await?.client_lock.is_none() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The client lock that holds the stack; none if there is none or if it has expired.
    pub(super) async fn client_lock(&self, stack: &Stack) -> Result<Option<ClientLock>, SessionError> {
        Ok(self.active(stack.lock_status().await?))
    }

    fn active(&self, status: LockStatus) -> Option<ClientLock> {
        let now = self.clock.now();
        status.client_lock.filter(|lock| client_lock::holds(lock, &now))
    }
}

#[cfg(test)]
mod tests {
    use super::{LockId, LockRequest, RunId, version_and_reason};
    use state_core::Timestamp;
    use state_core::backend::ClientLock;

    fn request(version: &str, reason: &str) -> LockRequest {
        let id = LockId::new("4e4d2794").unwrap();
        let now = Timestamp::new("2026-11-20T19:57:34Z");
        LockRequest::new(id, "anna@laptop", "OperationTypeApply", version, reason, now).unwrap()
    }

    fn lock(message: String) -> ClientLock {
        ClientLock {
            id: "a".to_owned(),
            holder: request("", "").holder,
            message,
            expires: None,
        }
    }

    #[test]
    fn message_keeps_version_reason_and_run() {
        let run = RunId::new([7; 16]);
        let message = request("1.11.4", "a: b").message(Some(&run));
        assert_eq!(version_and_reason(&message), ("1.11.4", "a: b"));
        assert!(run.took(&lock(message)));
        assert!(!RunId::new([8; 16]).took(&lock(request("1.11.4", "").message(Some(&run)))));
    }

    #[test]
    fn client_text_never_names_a_run() {
        let run = RunId::new([7; 16]);
        let part = format!(", statectl run {run}");
        for request in [request(&part, ""), request("1.11.4", &part)] {
            assert!(!run.took(&lock(request.message(None))));
        }
        assert!(!run.took(&lock(part)));
    }

    #[test]
    fn lock_texts_of_a_client_are_limited() {
        for id in ["", "a b", "\u{e9}", "a\n", &"x".repeat(129)] {
            assert!(LockId::new(id).is_err(), "{id:?}");
        }
        let now = Timestamp::new("2026-11-20T19:57:34Z");
        for text in ["a\u{1b}[2J", &"x".repeat(257)] {
            let id = LockId::new("a").unwrap();
            assert!(LockRequest::new(id, text, "", "", "", now.clone()).is_err());
        }
    }
}

//! Terraform's description of a lock, `LockInfo`, as JSON with its keys in Terraform's order.

use crate::session::{LockId, LockOwner, LockRequest, SessionError};
use serde::{Deserialize, Serialize};
use state_core::Timestamp;

/// Longest body of a lock request, in bytes.
pub(super) const MAX_BYTES: usize = 16 << 10;

/// A lock as Terraform describes it. Unknown fields are ignored, and missing ones are empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct LockInfo {
    #[serde(rename = "ID")]
    id: String,
    operation: String,
    info: String,
    who: String,
    version: String,
    created: String,
    path: String,
}

impl LockInfo {
    /// Parses the body of a request.
    pub(super) fn parse(body: &[u8]) -> Result<Self, SessionError> {
        // The error of the parser may quote the body.
        serde_json::from_slice(body).map_err(|error| {
            SessionError::Invalid(format!(
                "lock: not the JSON of a lock, at line {}, column {}",
                error.line(),
                error.column()
            ))
        })
    }

    /// The id of the lock.
    pub(super) fn id(&self) -> Result<LockId, SessionError> {
        LockId::new(&self.id)
    }

    /// The validated request for this lock.
    pub(super) fn request(&self, now: Timestamp) -> Result<LockRequest, SessionError> {
        LockRequest::new(
            self.id()?,
            &self.who,
            &self.operation,
            &self.version,
            &self.info,
            now,
        )
    }

    /// Describes the holder of a lock to a client. Terraform retries under `-lock-timeout` only if the id isn't empty.
    pub(super) fn of(owner: &LockOwner, stack: &str) -> Self {
        let (version, reason) = owner.version_and_reason();
        let holder = &owner.holder;
        let since = holder.since.as_ref();
        Self {
            id: owner.id.clone(),
            operation: holder.operation.clone(),
            info: reason.to_owned(),
            who: match &*holder.host {
                "" => holder.who.clone(),
                host => format!("{}@{host}", holder.who),
            },
            version: version.to_owned(),
            // Terraform can't parse an empty time.
            created: since.map_or("0001-01-01T00:00:00Z", Timestamp::as_str).to_owned(),
            path: stack.to_owned(),
        }
    }

    /// The description as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // The fields are strings, so serialization can't fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::LockInfo;
    use crate::session::LockOwner;
    use state_core::Timestamp;

    #[test]
    fn keys_have_the_names_and_order_of_terraform() {
        let body = r#"{"ID":"4e4d2794","Operation":"OperationTypeApply","Info":"","Who":"user@host","Version":"1.11.4","Created":"2026-11-20T19:57:34.079541713Z","Path":""}"#;
        let info = LockInfo::parse(body.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(info.to_json()).unwrap(), body);
        let request = info.request(Timestamp::new("2026-11-20T19:57:35Z")).unwrap();
        let owner = LockOwner {
            id: "4e4d2794".to_owned(),
            holder: request.holder,
            message: "Terraform lock, version 1.11.4: why".to_owned(),
        };
        let shown = String::from_utf8(LockInfo::of(&owner, "shop").to_json()).unwrap();
        assert_eq!(
            shown,
            r#"{"ID":"4e4d2794","Operation":"OperationTypeApply","Info":"why","Who":"user@host","Version":"1.11.4","Created":"2026-11-20T19:57:35Z","Path":"shop"}"#
        );
    }

    #[test]
    fn parser_errors_quote_no_body() {
        let error = LockInfo::parse(br#"{"ID": "hunter2"#).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

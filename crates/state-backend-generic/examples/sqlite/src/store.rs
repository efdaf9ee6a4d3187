//! Implements [`KeyValueStore`] in one table of an SQLite file.

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use state_backend_generic::{
    GenericBackend, KeyValueStore, ListedKey, RequestError, Settings, Value, Version,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// WAL lets readers continue while a writer commits. FULL syncs every commit, so that acknowledged writes survive a
/// power loss.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS state (
        key TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL
    );";

/// A connection to the file. Every process and every handle has its own connection.
///
/// SQLite calls block. A program with other work on its async runtime should call the store from a separate thread.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Mutex<Connection>,
}

/// Opens the backend in a file, and creates the file if it is missing.
pub fn open(file: &Path) -> Result<GenericBackend, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.execute_batch(SCHEMA)?;
    let mut settings = Settings::new(format!("sqlite://{}", file.display()));
    settings.deletes = true;
    let store = SqliteStore {
        connection: Mutex::new(connection),
    };
    Ok(GenericBackend::new(Arc::new(store), settings))
}

impl SqliteStore {
    /// Runs statements. The outcome of a failed statement is unknown, so every error becomes `NoAnswer`.
    fn run<T>(&self, statements: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, RequestError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        statements(&connection).map_err(RequestError::no_answer)
    }

    /// Runs a statement that changes one row, or none if its condition is not met.
    fn change(&self, statement: &str, values: impl rusqlite::Params) -> Result<(), RequestError> {
        match self.run(|connection| connection.execute(statement, values))? {
            0 => Err(RequestError::conflict(
                "the condition of the statement was not met",
            )),
            _ => Ok(()),
        }
    }
}

fn version(number: i64) -> Version {
    Version::new(number.to_string())
}

#[async_trait]
impl KeyValueStore for SqliteStore {
    async fn get(&self, key: &str, limit: u64) -> Result<Option<Value>, RequestError> {
        let statement = "SELECT version, CASE WHEN length(value) <= ?2 THEN value END
                         FROM state WHERE key = ?1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read =
            |row: &Row<'_>| -> rusqlite::Result<(i64, Option<Vec<u8>>)> { Ok((row.get(0)?, row.get(1)?)) };
        let row = self.run(|connection| {
            connection
                .query_row(statement, params![key, limit], read)
                .optional()
        })?;
        match row {
            None => Ok(None),
            Some((number, Some(value))) => Ok(Some(Value::new(value.into(), version(number)))),
            Some((_, None)) => Err(RequestError::too_large(key, limit.unsigned_abs())),
        }
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError> {
        let statement = "INSERT INTO state VALUES (?1, 0, ?2) ON CONFLICT DO NOTHING";
        self.change(statement, params![key, &value[..]])?;
        Ok(version(0))
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError> {
        let number: i64 = expected.as_str().parse().map_err(RequestError::conflict)?;
        let statement = "UPDATE state SET version = ?2 + 1, value = ?3 WHERE key = ?1 AND version = ?2";
        self.change(statement, params![key, number, &value[..]])?;
        Ok(version(number + 1))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError> {
        let statement =
            "SELECT key, length(value) FROM state WHERE key > ?1 AND substr(key, 1, length(?2)) = ?2";
        let read = |row: &Row<'_>| -> rusqlite::Result<ListedKey> {
            Ok(ListedKey {
                key: row.get(0)?,
                bytes: row.get::<_, i64>(1)?.unsigned_abs(),
            })
        };
        self.run(|connection| {
            let mut statement = connection.prepare(statement)?;
            let rows = statement.query_map(params![after.unwrap_or(prefix), prefix], read)?;
            rows.collect()
        })
    }

    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        self.run(|connection| connection.execute("DELETE FROM state WHERE key = ?1", params![key]))?;
        Ok(())
    }
}

//! Other ways to make bytes durable, for one writer.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::TableDefinition;
use rusqlite::Connection;
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The name of the append to a file that grows.
pub const GROWING: &str = "raw append, growing file";
/// The name of the append to a file whose blocks exist.
pub const PREALLOCATED: &str = "raw append, preallocated file";

/// Size in bytes of the file that is rewritten with each commit.
const STATE: usize = 1 << 20;
/// The table of redb.
pub const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("commits");

/// A way to make bytes durable.
pub trait Commit {
    /// Returns once the bytes are durable.
    fn commit(&mut self, bytes: &[u8]);
}

/// All ways, each with its name. `most` is the number of bytes that one of them commits in total.
pub fn all(folder: &Path, most: usize) -> Vec<(&'static str, Box<dyn Commit>)> {
    vec![
        (GROWING, Box::new(growing(&folder.join("growing")))),
        (
            PREALLOCATED,
            Box::new(preallocated(&folder.join("preallocated"), most)),
        ),
        (
            "SQLite, WAL, synchronous=FULL",
            Box::new(Sqlite::create(&folder.join("sqlite"))),
        ),
        ("fjall, SyncData", Box::new(Fjall::create(&folder.join("fjall")))),
        ("redb", Box::new(Redb::create(&folder.join("redb")))),
        ("a file of 1 MiB, rewritten", Box::new(Rewritten::create(folder))),
    ]
}

/// Bytes that are different in each commit.
pub struct Bytes {
    buffer: Vec<u8>,
    seed: u64,
}

impl Bytes {
    pub fn new(size: usize) -> Self {
        Self {
            buffer: vec![0; size],
            seed: 0x9E37_79B9_7F4A_7C15,
        }
    }

    pub fn next(&mut self) -> &[u8] {
        for part in self.buffer.chunks_mut(8) {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            part.copy_from_slice(&self.seed.to_le_bytes()[..part.len()]);
        }
        &self.buffer
    }
}

/// Appends to a file.
impl Commit for File {
    fn commit(&mut self, bytes: &[u8]) {
        self.write_all(bytes).expect("the bytes are written");
        self.sync_data().expect("the file is synced");
    }
}

pub fn growing(path: &Path) -> File {
    File::create_new(path).expect("a new file")
}

/// A file whose blocks exist and contain zeros, so that an append changes neither its size nor its extents.
fn preallocated(path: &Path, most: usize) -> File {
    let mut file = File::create_new(path).expect("a new file");
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, most as u64).expect("the file is allocated");
    file.write_all(&vec![0; most]).expect("the zeros are written");
    file.sync_all().expect("the file is synced");
    file.seek(SeekFrom::Start(0)).expect("the file has a start");
    file
}

/// One row a transaction.
pub struct Sqlite(Connection);

impl Sqlite {
    pub fn create(path: &Path) -> Self {
        let connection = Connection::open(path).expect("a database");
        let setup = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
            CREATE TABLE commits (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";
        connection.execute_batch(setup).expect("a table");
        Self(connection)
    }
}

impl Commit for Sqlite {
    fn commit(&mut self, bytes: &[u8]) {
        let insert = self.0.prepare_cached("INSERT INTO commits (bytes) VALUES (?1)");
        let rows = insert.expect("a statement").execute([bytes]).expect("a commit");
        assert_eq!(rows, 1);
    }
}

/// One key a commit.
pub struct Fjall {
    database: Database,
    commits: Keyspace,
    next: u64,
}

impl Fjall {
    pub fn create(path: &Path) -> Self {
        let database = Database::builder(path).open().expect("a database");
        let commits = database
            .keyspace("commits", KeyspaceCreateOptions::default)
            .expect("a keyspace");
        Self {
            database,
            commits,
            next: 0,
        }
    }

    /// Makes one key durable.
    pub fn insert(&self, key: u64, bytes: &[u8]) {
        self.commits.insert(key.to_be_bytes(), bytes).expect("an insert");
        self.database.persist(PersistMode::SyncData).expect("a sync");
    }
}

impl Commit for Fjall {
    fn commit(&mut self, bytes: &[u8]) {
        self.next += 1;
        self.insert(self.next, bytes);
    }
}

/// One key a transaction.
pub struct Redb {
    database: redb::Database,
    next: u64,
}

impl Redb {
    pub fn create(path: &Path) -> Self {
        Self {
            database: redb::Database::create(path).expect("a database"),
            next: 0,
        }
    }

    /// Makes one key durable.
    pub fn insert(&self, key: u64, bytes: &[u8]) {
        let transaction = self.database.begin_write().expect("a transaction");
        let mut table = transaction.open_table(TABLE).expect("a table");
        table.insert(key, bytes).expect("an insert");
        drop(table);
        transaction.commit().expect("a commit");
    }
}

impl Commit for Redb {
    fn commit(&mut self, bytes: &[u8]) {
        self.next += 1;
        self.insert(self.next, bytes);
    }
}

/// A file that is replaced as a whole, as a program does that keeps its state in one file.
struct Rewritten {
    folder: PathBuf,
    state: Vec<u8>,
    at: usize,
}

impl Rewritten {
    fn create(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            state: vec![0; STATE],
            at: 0,
        }
    }
}

impl Commit for Rewritten {
    fn commit(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() > self.state.len() {
            self.at = 0;
        }
        self.state[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        let (new, place) = (self.folder.join("rewritten.new"), self.folder.join("rewritten"));
        let mut file = File::create(&new).expect("a file");
        file.write_all(&self.state).expect("the state is written");
        file.sync_all().expect("the file is synced");
        fs::rename(&new, &place).expect("the file is replaced");
        let folder = File::open(&self.folder).expect("the folder opens");
        folder.sync_all().expect("the folder is synced");
    }
}

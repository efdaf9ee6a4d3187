//! What this user saw of stores before, in files among the user's own: which key, how far, and which stack by a name.
//!
//! `$XDG_STATE_HOME/statectl/seen/<store>/` has one small file a stack and one a name. They hold no secret. Without a
//! home folder nothing is remembered.

use crate::output::line_to_stderr;
use crate::settings::file::state_folder;
use crate::settings::{Settings, shown};
use async_trait::async_trait;
use state_core::{Digest, Entropy, Error, Lineage, Nonce, Result, StackName};
use state_manager::{Seen, Witness};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Larger files aren't ours.
const MAX_BYTES: u64 = 64 << 10;

/// The memory for one store.
#[derive(Debug)]
pub(crate) struct FileWitness {
    folder: PathBuf,
    entropy: Arc<dyn Entropy>,
    quiet: bool,
    complained: AtomicBool,
}

/// What tells stores with one URL apart: where a parameter, a flag or the environment says that they are.
const WHERE: [(&str, &[&str]); 2] = [
    (
        "endpoint",
        &[
            "AWS_ENDPOINT_URL_S3",
            "AWS_ENDPOINT_URL",
            "AZURE_STORAGE_ENDPOINT",
        ],
    ),
    ("account", &["AZURE_STORAGE_ACCOUNT_NAME"]),
];

impl FileWitness {
    /// The memory for a store; none without a home folder. `asked` is how the user named it, with parameters.
    pub(crate) fn of(
        settings: &Settings,
        url: &str,
        asked: &str,
        entropy: Arc<dyn Entropy>,
    ) -> Option<Arc<Self>> {
        let mut store = identity_of(url);
        if !store.starts_with("file://") {
            for (field, variables) in WHERE {
                let place = given(settings, asked, field)
                    .or_else(|| variables.iter().find_map(|name| std::env::var(name).ok()));
                store.push_str(&format!("\n{field} {}", place.unwrap_or_default()));
            }
        }
        let folder = state_folder()?
            .join("statectl/seen")
            .join(Digest::of(store.as_bytes()).short());
        Some(Arc::new(Self {
            folder,
            entropy,
            quiet: settings.json,
            complained: AtomicBool::new(false),
        }))
    }
}

/// A value of the store's configuration, as the command line or the URL says it.
fn given(settings: &Settings, asked: &str, field: &str) -> Option<String> {
    let flag = settings.backend_config.iter().rfind(|config| config.key == field);
    if let Some(flag) = flag {
        return Some(flag.value.clone());
    }
    let (_, parameters) = asked.split_once('?')?;
    let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(key, _)| *key == field)
        .map(|(_, value)| value.to_owned())
}

/// The same for all ways to write the place of one store, as far as that can be told.
fn identity_of(url: &str) -> String {
    let url = shown(url);
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.strip_prefix("file://") {
        Some(path) => match std::fs::canonicalize(path) {
            Ok(path) => format!("file://{}", path.display()),
            Err(_) => url.to_owned(),
        },
        None => url.trim_end_matches('/').to_owned(),
    }
}

impl FileWitness {
    fn of_stack(&self, lineage: Lineage) -> PathBuf {
        self.folder.join("stacks").join(format!("{lineage}.json"))
    }

    fn of_name(&self, name: &StackName) -> PathBuf {
        let (project, stack) = name.folded();
        self.folder.join("names").join(project).join(stack)
    }

    async fn read<T: Send + 'static>(
        &self,
        path: PathBuf,
        understood: impl FnOnce(&[u8]) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let read = move || match read(&path) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => match understood(&bytes) {
                Some(value) => Ok(Some(value)),
                None => Err(unreadable(&path, "it isn't what statectl wrote")),
            },
            Err(source) => Err(unreadable(&path, &source.to_string())),
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| Error::invalid("what was seen before", "its reader failed"))?
    }

    /// Replaces a file, or removes it; tells once if that fails.
    async fn write(&self, path: PathBuf, bytes: Option<Vec<u8>>) {
        let temporary = format!(".tmp-{}", Nonce::random(&*self.entropy));
        let shown = path.display().to_string();
        let write = move || match bytes {
            Some(bytes) => replace(&path, &temporary, &bytes),
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        let done = tokio::task::spawn_blocking(write).await;
        let failed = match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its writer failed".to_owned(),
        };
        if !self.quiet && !self.complained.swap(true, Ordering::Relaxed) {
            let warning = format!("warning: can't remember what was seen, in {shown}: {failed}");
            line_to_stderr(&warning);
        }
    }
}

#[async_trait]
impl Witness for FileWitness {
    async fn seen(&self, lineage: Lineage) -> Result<Option<Seen>> {
        let path = self.of_stack(lineage);
        self.read(path, |bytes| serde_json::from_slice(bytes).ok()).await
    }

    async fn remember(&self, lineage: Lineage, seen: Option<&Seen>) {
        let encoded = seen.and_then(|seen| serde_json::to_vec(seen).ok());
        self.write(self.of_stack(lineage), encoded).await;
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        let understood = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse().ok();
        self.read(self.of_name(name), understood).await
    }

    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>) {
        let encoded = lineage.map(|lineage| format!("{lineage}\n").into_bytes());
        self.write(self.of_name(name), encoded).await;
    }
}

fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let length = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?.len(),
    };
    if length > MAX_BYTES {
        return Err(std::io::Error::other("it is too large"));
    }
    std::fs::read(path).map(Some)
}

/// A reader sees the file before or the one after.
fn replace(path: &Path, temporary: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = folder.join(temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary).ok();
    }
    written
}

fn unreadable(path: &Path, reason: &str) -> Error {
    let reason =
        format!("what was seen of the stack before can't be read: {reason}; remove the file to forget it");
    Error::invalid(path.display().to_string(), reason)
}

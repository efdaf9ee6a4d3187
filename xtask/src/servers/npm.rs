//! The servers that npm installs: Azurite, Microsoft's emulator of Azure Blob, with its data in memory; and s3rver,
//! which accepts conditional writes but ignores their conditions, so that clients must refuse it.

use std::process::Command;
use std::time::Duration;

use super::home::{Home, wait_for_port};
use super::install::{self, Readiness, program_of};
use super::{BUCKET, Exports};
use crate::process::{Failure, run_aside};

/// Later versions need a newer Node than Debian has.
const AZURITE: &str = "azurite@3.35.0";

/// The public account and key of the emulator.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Creates a container. Its request must be signed, which curl can't do.
const MAKE_CONTAINER: &str = r"
const [port, account, key, name] = process.argv.slice(2);
const version = '2021-08-06', date = new Date().toUTCString();
const text = 'PUT\n\n\n\n\n\n\n\n\n\n\n\n'
  + `x-ms-date:${date}\nx-ms-version:${version}\n/${account}/${account}/${name}\nrestype:container`;
const signature = require('crypto').createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64');
fetch(`http://127.0.0.1:${port}/${account}/${name}?restype=container`, {
  method: 'PUT',
  headers: { 'x-ms-date': date, 'x-ms-version': version, Authorization: `SharedKey ${account}:${signature}` },
}).then(answer => { if (!answer.ok) { console.error(answer.status); process.exit(1); } });
";

/// Lets Azurite collect no garbage. Every 10 minutes its collector deletes the overwritten content of blobs, one at a
/// time, and answers no request meanwhile: 127 seconds for 9,950 writes.
const NEVER_COLLECT: &str = r"
const constants = require(process.env.STATE_AZURITE_CONSTANTS);
if (!(constants.DEFAULT_GC_INTERVAL_MS > 0)) { throw new Error('this Azurite has no interval of collection'); }
constants.DEFAULT_GC_INTERVAL_MS = 2 ** 31 - 1;
";

pub(crate) fn install_azurite(home: &Home) -> Result<Readiness, Failure> {
    install::from_npm(home, AZURITE, "azurite-blob")
}

pub(crate) fn launch_azurite(home: &Home) -> Result<(), Failure> {
    let port = home.take_port("port")?;
    let constants = "node_modules/azurite/dist/src/blob/utils/constants.js";
    let mut server = Command::new("node");
    server
        .env("STATE_AZURITE_CONSTANTS", home.tools().join(constants))
        .arg("--require")
        .arg(home.write("never-collect.js", NEVER_COLLECT)?)
        .arg(program_of(home, "azurite-blob"))
        .args(["--silent", "--disableTelemetry", "--inMemoryPersistence"])
        .args(["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort"])
        .arg(port.to_string());
    home.spawn("azurite", &mut server)?;
    wait_for_port(port, Duration::from_secs(30))?;
    let script = home.write("make-container.js", MAKE_CONTAINER)?;
    let mut make = Command::new("node");
    make.arg(script).args([&port.to_string(), ACCOUNT, KEY, BUCKET]);
    run_aside(&mut make)
}

pub(crate) fn azurite_exports(home: &Home) -> Result<Exports, Failure> {
    let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", home.port("port")?);
    Ok(vec![
        ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
        (
            "STATE_TEST_AZURE_URL",
            format!("az://{BUCKET}?endpoint={endpoint}"),
        ),
    ])
}

const S3RVER: &str = "s3rver@3.7.1";

/// Lets s3rver keep empty folders. After a deletion it removes the object's folder if that is empty; a write that has
/// just made this folder for another object then fails with `ENOENT`, and this ends the server.
const KEEP_FOLDERS: &str = r"
require('fs').rmdir = (path, ...rest) => rest.pop()(null);
";

pub(crate) fn install_s3rver(home: &Home) -> Result<Readiness, Failure> {
    install::from_npm(home, S3RVER, "s3rver")
}

pub(crate) fn launch_s3rver(home: &Home) -> Result<(), Failure> {
    let port = home.take_port("port")?;
    let mut server = Command::new("node");
    server
        .arg("--require")
        .arg(home.write("keep-folders.js", KEEP_FOLDERS)?)
        .arg(program_of(home, "s3rver"))
        .args(["--silent", "--address", "127.0.0.1", "--port", &port.to_string()])
        .args(["--configure-bucket", BUCKET, "--directory"])
        .arg(home.path("data"));
    home.spawn("s3rver", &mut server)?;
    wait_for_port(port, Duration::from_secs(30))
}

/// Returns the URL only. The usual variables contain the keys of the radosgw; both keys of s3rver are `S3RVER`.
pub(crate) fn s3rver_exports(home: &Home) -> Result<Exports, Failure> {
    let endpoint = format!("http://127.0.0.1:{}", home.port("port")?);
    Ok(vec![(
        "STATE_TEST_S3RVER_URL",
        format!("s3://{BUCKET}?endpoint={endpoint}"),
    )])
}

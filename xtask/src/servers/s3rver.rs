//! s3rver, which takes conditional writes and ignores their conditions: a store that must be refused.

use std::process::Command;
use std::time::Duration;

use super::home::{Home, wait_for_port};
use super::install::{self, Readiness, program_of};
use super::{BUCKET, Exports};
use crate::process::Failure;

const PACKAGE: &str = "s3rver@3.7.1";

pub(crate) fn install(home: &Home) -> Result<Readiness, Failure> {
    install::from_npm(home, PACKAGE, "s3rver")
}

pub(crate) fn launch(home: &Home) -> Result<(), Failure> {
    let port = home.take_port("port")?;
    let mut server = Command::new(program_of(home, "s3rver"));
    server
        .args(["--silent", "--address", "127.0.0.1", "--port", &port.to_string()])
        .args(["--configure-bucket", BUCKET, "--directory"])
        .arg(home.path("data"));
    home.spawn("s3rver", &mut server)?;
    wait_for_port(port, Duration::from_secs(30))
}

/// Its keys are `S3RVER` and `S3RVER`: those of the radosgw stand in the usual variables.
pub(crate) fn exports(home: &Home) -> Result<Exports, Failure> {
    let endpoint = format!("http://127.0.0.1:{}", home.port("port")?);
    Ok(vec![(
        "STATE_TEST_S3RVER_URL",
        format!("s3://{BUCKET}?endpoint={endpoint}"),
    )])
}

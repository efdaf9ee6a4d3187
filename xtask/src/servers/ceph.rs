//! A minimal Ceph cluster: a monitor, one OSD in memory, and the radosgw, which serves S3 and checks signatures. The
//! cluster has no manager, no systemd units, and no authentication between its daemons.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::home::{Home, wait, wait_for_port};
use super::install::{self, Readiness, Tool};
use super::{BUCKET, Exports};
use crate::process::{Failure, probe, run_aside};

const TOOLS: [Tool; 6] = [
    ("radosgw", "radosgw"),
    ("radosgw-admin", "radosgw"),
    ("ceph-mon", "ceph-mon"),
    ("monmaptool", "ceph-common"),
    ("ceph-osd", "ceph-osd"),
    ("curl", "curl"),
];

/// Any id is fine, because the cluster is deleted with its folder.
const CLUSTER: &str = "5d8c1f6e-6f0b-4c69-9d4e-3c8f0c6b5a11";
const OSD: &str = "8a1f0c52-0f5e-4b7e-8d0c-2f4c9b7d6e22";

const KEY: &str = "STATETESTKEY";
const SECRET: &str = "state-test-secret";
const READER_KEY: &str = "STATETESTREADER";
const READER_SECRET: &str = "state-test-reader-secret";

pub(crate) fn install(_: &Home) -> Result<Readiness, Failure> {
    install::from_debian(&TOOLS)
}

pub(crate) fn launch(home: &Home) -> Result<(), Failure> {
    let (monitor, old_monitor) = (home.take_port("mon")?, home.take_port("mon1")?);
    let port = home.take_port("port")?;
    let monitors = format!("[v2:127.0.0.1:{monitor},v1:127.0.0.1:{old_monitor}]");
    for folder in ["data/mon", "data/osd", "data/rgw"] {
        home.make(folder)?;
    }
    let conf = home.write("ceph.conf", &configuration(home, &monitors, port))?;
    let map = home.path("data/monmap");
    let mut monmap = Command::new("monmaptool");
    monmap
        .args(["--create", "--fsid", CLUSTER, "--addv", "a", &monitors])
        .arg(&map);
    run_aside(&mut monmap)?;
    let mut mkfs = with(&conf, "ceph-mon");
    run_aside(mkfs.args(["--mkfs", "-i", "a", "--monmap"]).arg(&map))?;
    run_aside(with(&conf, "ceph-mon").args(["-i", "a"]))?;
    run_aside(with(&conf, "ceph").args(["--connect-timeout", "30", "osd", "new", OSD]))?;
    run_aside(with(&conf, "ceph-osd").args(["-i", "0", "--mkfs", "--osd-uuid", OSD]))?;
    run_aside(with(&conf, "ceph-osd").args(["-i", "0"]))?;
    let is_up = || {
        let stat = probe(with(&conf, "ceph").args(["--connect-timeout", "10", "osd", "stat"]));
        stat.is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains("1 up"))
    };
    if !wait(Duration::from_secs(30), is_up) {
        return Err(Failure("the OSD did not come up within 30 s".to_owned()));
    }
    run_aside(with(&conf, "radosgw").args(["-n", "client.rgw"]))?;
    wait_for_port(port, Duration::from_secs(90))?;
    make_users(&conf)?;
    make_bucket(port)
}

pub(crate) fn exports(home: &Home) -> Result<Exports, Failure> {
    let endpoint = format!("http://127.0.0.1:{}", home.port("port")?);
    Ok(vec![
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("STATE_TEST_S3_URL", format!("s3://{BUCKET}?endpoint={endpoint}")),
        ("STATE_TEST_S3_READER_KEY", READER_KEY.to_owned()),
        ("STATE_TEST_S3_READER_SECRET", READER_SECRET.to_owned()),
    ])
}

/// Returns the text of `ceph.conf`. The daemons don't authenticate each other: the radosgw then hangs silently unless
/// `ms mon client mode` is `crc`.
fn configuration(home: &Home, monitors: &str, port: u16) -> String {
    let (run, data) = (home.path("run"), home.path("data"));
    let (run, data) = (run.display(), data.display());
    format!(
        "[global]
fsid={CLUSTER}
mon host={monitors}
public addr=127.0.0.1
cluster addr=127.0.0.1
auth cluster required=none
auth service required=none
auth client required=none
osd pool default size=1
osd pool default min size=1
osd pool default pg num=4
osd pool default pgp num=4
osd pool default pg autoscale mode=off
osd crush chooseleaf type=0
mon allow pool size one=true
mon warn on pool no redundancy=false
mon data avail crit=1
osd objectstore=memstore
memstore device bytes=2147483648
run dir={run}
admin socket=
pid file={run}/$name.pid
log file={run}/$name.log
[mon.a]
mon data={data}/mon
[osd.0]
osd data={data}/osd
[client.rgw]
rgw data={data}/rgw
rgw frontends=beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name=localhost
ms mon client mode=crc
"
    )
}

/// Creates a user with all rights, and one that may only read.
fn make_users(conf: &Path) -> Result<(), Failure> {
    let mut owner = with(conf, "radosgw-admin");
    owner
        .args(["user", "create", "--uid=test", "--display-name=test"])
        .args(["--access-key", KEY, "--secret-key", SECRET]);
    silently(&mut owner)?;
    let mut reader = with(conf, "radosgw-admin");
    reader
        .args(["subuser", "create", "--uid=test", "--subuser=test:reader"])
        .args(["--access=read", "--key-type=s3"])
        .args(["--access-key", READER_KEY, "--secret-key", READER_SECRET]);
    silently(&mut reader)
}

fn make_bucket(port: u16) -> Result<(), Failure> {
    let mut put = Command::new("curl");
    put.args(["-fsS", "--retry", "5", "--aws-sigv4", "aws:amz:us-east-1:s3"])
        .args(["--user", &format!("{KEY}:{SECRET}")])
        // The SHA-256 digest of an empty body.
        .args([
            "-H",
            "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ])
        .args(["-X", "PUT", &format!("http://127.0.0.1:{port}/{BUCKET}")]);
    run_aside(&mut put)
}

/// Returns a short error, because radosgw-admin's output is long and contains the keys.
fn silently(command: &mut Command) -> Result<(), Failure> {
    match probe(command) {
        Some(_) => Ok(()),
        None => Err(Failure("radosgw-admin couldn't make a user".to_owned())),
    }
}

fn with(conf: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("-c").arg(conf);
    command
}

//! Locks of the real client: two at once, killed clients, killed servers, and force-unlock.

use super::folder::{SLOW, WorkFolder, children, ended, finished, send, wait_for};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const APPLY: [&str; 3] = ["apply", "-auto-approve", "-no-color"];

/// The id of the client lock of the stack; none if it is unlocked.
fn lock_id(folder: &WorkFolder) -> Option<String> {
    let status = folder.statectl(&["lock", "status", "--json"]).exits(0).out;
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let id = &status["data"]["client-lock"]["id"];
    id.as_str().map(str::to_owned)
}

#[test]
fn second_apply_is_refused_with_the_id_of_the_first() {
    for folder in WorkFolder::all("two runs of Terraform at once") {
        folder.init();
        folder.apply("one").exits(0);
        folder.write("slow.tf", SLOW);
        let first = folder.started(&mut folder.run_command(&APPLY));
        let id = lock_id(&folder).expect("the first apply holds the lock");
        folder
            .apply("one")
            .exits(1)
            .reports("Error acquiring the state lock")
            .reports(&format!("ID={id}"))
            .reports("refused LOCK with status 423: the stack is locked by ");
        let status = folder.statectl(&["lock", "status"]).exits(0).out;
        for text in ["OperationTypeApply", "version 1.", "statectl run"] {
            assert!(status.contains(text), "{text}: {status}");
        }
        folder.run(&["state", "list"]).exits(0);
        folder
            .statectl(&["taint", "terraform_data.web", "--yes"])
            .exits(11)
            .reports(&id);
        folder.go();
        ended(first).exits(0);
        assert_eq!(lock_id(&folder), None);
        folder.apply("two").exits(0);
    }
}

#[test]
fn lock_of_a_killed_client_ends_with_its_run() {
    for folder in WorkFolder::all("a killed Terraform under `statectl run`") {
        folder.init();
        folder.apply("one").exits(0);
        folder.write("slow.tf", SLOW);
        let run = folder.started(&mut folder.run_command(&APPLY));
        for client in children(run.id()) {
            send(client, Signal::KILL);
        }
        folder.go();
        ended(run).exits(137).reports("released the lock");
        assert_eq!(lock_id(&folder), None);
        folder.run(&["state", "list"]).exits(0);
        folder.run(&APPLY).exits(0);
        folder.plan("one").exits(0);
    }
}

#[test]
fn lock_of_a_killed_run_is_kept_until_its_client_ends() {
    for folder in WorkFolder::all("a killed `statectl run`") {
        folder.init();
        folder.write("slow.tf", SLOW);
        let mut run = folder.started(&mut folder.run_command(&APPLY));
        let clients = children(run.id());
        run.kill().expect("the run is killed");
        // The client holds the pipes, so only the run itself is awaited.
        run.wait().expect("the run ends");
        assert!(lock_id(&folder).is_some());
        folder
            .apply("one")
            .exits(1)
            .reports("Error acquiring the state lock");
        folder.go();
        let is_alive = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
        wait_for("end of the client", || !clients.iter().any(is_alive));
        drop(run);
        // What the client could not write is in its folder, as Terraform says.
        folder
            .run(&["state", "push", "errored.tfstate"])
            .exits(0)
            .reports("released the lock of an earlier run");
        let listed = folder.run(&["state", "list"]).exits(0).out;
        assert!(listed.contains("terraform_data.slow"), "{listed}");
        folder.plan("one").exits(0);
    }
}

#[test]
fn interrupted_apply_stores_what_was_done() {
    for folder in WorkFolder::all("signals under `statectl run`") {
        folder.init();
        folder.write("slow.tf", SLOW);
        let run = folder.started(&mut folder.run_command(&APPLY));
        send(run.id(), Signal::TERM);
        ended(run).exits(1).reports("execution halted");
        assert_eq!(lock_id(&folder), None);
        let listed = folder.run(&["state", "list"]).exits(0).out;
        assert!(listed.contains("terraform_data.slow"), "{listed}");
    }
}

#[test]
fn wrong_password_is_refused_and_changes_nothing() {
    for folder in WorkFolder::all("access to Terraform's backend") {
        folder.init();
        let command = folder.client_command(&APPLY);
        let program = command.get_program().to_str().expect("UTF-8").to_owned();
        let script = format!("TF_HTTP_PASSWORD=wrong {program} apply -auto-approve -no-color");
        let refused = folder.statectl(&["run", "--", "sh", "-c", &script]).exits(1);
        refused.reports("requires auth");
        assert_eq!(folder.statectl(&["list"]).exits(0).out, "");
    }
}

/// A server with one user, and the variables of its clients.
struct Served<'a> {
    folder: &'a WorkFolder,
    child: Child,
    address: String,
}

impl<'a> Served<'a> {
    fn start(folder: &'a WorkFolder) -> Self {
        folder.write("tokens", &format!("tess {TOKEN}\n"));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.work().join("tokens"), private).expect("a mode");
        folder.statectl(&["init"]).exits(0);
        let arguments = ["serve", "--tokens", "tokens", "--listen", "127.0.0.1:0"];
        let mut command = folder.statectl_command(&arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the server starts");
        let mut lines = BufReader::new(child.stderr.as_mut().expect("a pipe")).lines();
        let listening = lines.find_map(|line| {
            let line = line.expect("a line");
            line.strip_prefix("listening on ").map(str::to_owned)
        });
        drop(lines);
        Self {
            folder,
            child,
            address: listening.expect("the server listens"),
        }
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let url = format!("{}/v1/state/shop/production", self.address);
        let mut command = self.folder.client_command(arguments);
        for name in ["ADDRESS", "LOCK_ADDRESS", "UNLOCK_ADDRESS"] {
            command.env(format!("TF_HTTP_{name}"), &url);
        }
        command
            .env("TF_HTTP_USERNAME", "tess")
            .env("TF_HTTP_PASSWORD", TOKEN);
        command
    }

    /// Ends the server, and returns its audit lines.
    fn end(mut self) -> String {
        send(self.child.id(), Signal::TERM);
        let mut out = String::new();
        let mut pipe = self.child.stdout.take().expect("a pipe");
        pipe.read_to_string(&mut out).expect("text");
        assert!(self.child.wait().expect("an end").success());
        out
    }
}

#[test]
fn force_unlock_releases_the_lock_of_a_killed_client() {
    for folder in WorkFolder::all("Terraform with `statectl serve`") {
        let served = Served::start(&folder);
        let run = |arguments: &[&str]| finished(&mut served.client(arguments));
        run(&["init", "-no-color"]).exits(0);
        folder.write("slow.tf", SLOW);
        let mut killed = folder.started(&mut served.client(&APPLY));
        killed.kill().expect("the client is killed");
        folder.go();
        drop(killed.wait());
        let id = lock_id(&folder).expect("the lock is held until it is released");
        run(&APPLY).exits(1).reports(&format!("ID={id}"));
        run(&["force-unlock", "-force", &id]).exits(0);
        run(&APPLY).exits(0);
        run(&["plan", "-detailed-exitcode"]).exits(0);
        let audit = served.end();
        assert!(!audit.contains(TOKEN) && !audit.contains("canary-"), "{audit}");
        for text in [
            "\"method\":\"UNLOCK\"",
            "\"status\":423",
            "\"user\":\"tess\"",
            &*id,
        ] {
            assert!(audit.contains(text), "{text}: {audit}");
        }
    }
}

#[test]
fn apply_goes_on_at_another_server_after_a_kill() {
    for folder in WorkFolder::all("a killed `statectl serve`") {
        let served = Served::start(&folder);
        finished(&mut served.client(&["init", "-no-color"])).exits(0);
        folder.write("slow.tf", SLOW);
        let apply = folder.started(&mut served.client(&APPLY));
        let port = served.address.rsplit(':').next().expect("a port").to_owned();
        send(served.child.id(), Signal::KILL);
        let listen = format!("127.0.0.1:{port}");
        let arguments = ["serve", "--tokens", "tokens", "--listen", &listen];
        wait_for("end of the first server", || {
            std::net::TcpStream::connect(&listen).is_err()
        });
        let mut second = folder.statectl_command(&arguments);
        let mut second = second
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server");
        wait_for("second server", || std::net::TcpStream::connect(&listen).is_ok());
        folder.go();
        ended(apply).exits(0);
        assert_eq!(lock_id(&folder), None);
        finished(&mut served.client(&["plan", "-detailed-exitcode"])).exits(0);
        send(second.id(), Signal::TERM);
        assert!(second.wait().expect("an end").success());
    }
}

//! Tests of secrets that a program embeds in longer strings: no event, report or log shows the secrets.

use super::source;
use crate::harness::Harness;
use state_engine::builtin::registry;
use state_engine::{CommandApprovals, Event, Operation, Report, Run};
use state_manager::{Actor, Environment, LogQuery};
use std::sync::{Arc, Mutex};

/// A token that contains special characters of shells.
const TOKEN: &str = "s3;k/anary'$x";
const LINES: &str = "first canary line\nsecond canary line\n";
const PIN: &str = "12345678";

/// Runs commands on a plaintext stack and collects all messages.
struct SecretHarness {
    harness: Harness,
    folder: tempfile::TempDir,
    messages: Arc<Mutex<String>>,
    /// Remembers the commands that a program declared, as a client does.
    approvals: CommandApprovals,
}

impl SecretHarness {
    async fn new(seed: u64) -> Self {
        Self {
            harness: Harness::new(seed).await,
            folder: tempfile::tempdir().unwrap(),
            messages: Arc::default(),
            approvals: CommandApprovals::default(),
        }
    }

    async fn run(&self, operation: Operation) -> Report {
        let mut run = Run::new(registry(
            &Environment::system(Actor::default()),
            self.folder.path(),
        ));
        run.approvals = self.approvals.clone();
        run.options.timeout = None;
        run.options.continue_on_error = true;
        let messages = Arc::clone(&self.messages);
        run.observer = Arc::new(move |event: &Event| {
            let mut messages = messages.lock().unwrap();
            match event {
                Event::Log(line) => *messages += &line.message,
                event => *messages += &format!("{event:?}"),
            }
            messages.push('\n');
        });
        let report = self.harness.run(operation, run).await;
        *self.messages.lock().unwrap() += &format!("{report:?} {:?}\n", report.failures);
        report
    }

    async fn up(&self, text: &str) -> Report {
        let given = [("token", TOKEN), ("lines", LINES), ("pin", PIN)];
        let source = source(text, &given, None).await.unwrap();
        self.run(Operation::Update(Box::new(source))).await
    }

    /// All events, reports and stored logs as text.
    async fn all(&self) -> String {
        let lines = self.harness.stack.logs(&LogQuery::default()).await.unwrap();
        let stored: Vec<String> = lines.iter().map(|line| line.line.message.clone()).collect();
        assert!(!stored.is_empty());
        format!("{}{}", self.messages.lock().unwrap(), stored.join("\n"))
    }

    /// Asserts that no message contains one of the secrets or a recognizable part of one.
    async fn assert_silent(&self) {
        let all = self.all().await;
        for secret in [TOKEN, "anary", "canary line", PIN] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }
}

const CONFIG: &str = "config:
  token: { secret: true }
  lines: { secret: true }
  pin: { type: number, secret: true }
resources:
";

#[tokio::test]
async fn embedded_secret_is_masked_in_create_read_and_delete() {
    let messages = SecretHarness::new(31).await;
    let job = r#"
  job:
    kind: command
    inputs:
      shell: true
      environment:
        BEARER: "bearer ${config.token} of ${config.pin}"
        TEXT: "${config.lines}"
        BOTH: "${config.token} ${config.pin}"
      create: |
        cat > /dev/null
        echo "plain words" >&2
        printf '%s\n' "$BEARER" "$TEXT" >&2
      read: printf 'looks %s\n' "$BOTH" >&2
      delete: |
        printf 'away %s\n' "$BOTH" >&2
        exit 7
  other:
    kind: command
    inputs: { shell: true, create: "echo create bearer 77 >&2" }
"#;
    let report = messages.up(&format!("{CONFIG}{job}")).await;
    assert!(report.succeeded(), "{report:?}");
    assert!(messages.run(Operation::Refresh).await.succeeded());
    // The `delete` command fails, and the reason quotes the output of the command without secrets.
    let report = messages.run(Operation::Destroy).await;
    assert_eq!(report.failures.len(), 1, "{report:?}");
    messages.assert_silent().await;
    let all = messages.all().await;
    for open in ["create bearer 77", "exit status: 7", "***"] {
        assert!(all.contains(open), "{open}: {all}");
    }
}

#[tokio::test]
async fn secret_in_lists_and_maps_is_masked_and_marks_stdout() {
    let messages = SecretHarness::new(32).await;
    let jobs = r#"
  job:
    kind: command
    inputs:
      environment: { BOTH: "${config.token}+${config.pin}" }
      create: [sh, -c, 'printf "%s\n" "$BOTH" "$STATE_INPUTS" >&2; echo "got $BOTH"']
      triggers: { deep: ["pin=${config.pin}", { a: "x ${config.token}" }] }
  printed:
    kind: command
    inputs: { shell: true, create: 'echo "got $TOKEN"', environment: { TOKEN: "${config.token}" } }
  absent:
    kind: command
    inputs: { create: ["true"], dir: "/no/${config.token}" }
  left:
    kind: command
    inputs: { create: [sh, -c, 'echo "left $TEXT" >&2; exit 3'], environment: { TEXT: "a ${config.token}" } }
"#;
    let report = messages.up(&format!("{CONFIG}{jobs}")).await;
    assert_eq!(report.failures.len(), 2, "{report:?}");
    messages.assert_silent().await;
    let all = messages.all().await;
    assert!(all.contains("it contains a secret"), "{all}");
    assert!(all.contains("exit status: 3"), "{all}");
    for job in ["job", "printed"] {
        let marks = &messages.harness.entry(job).unwrap().sensitive_outputs;
        assert_eq!(*marks, ["/stdout"], "{job} prints a secret");
    }
    messages.run(Operation::Destroy).await;
    messages.assert_silent().await;
}

//! Secrets that a program puts into longer texts: nobody is told them, wherever the whole is told.

use super::source;
use crate::stage::Stage;
use state_engine::builtin::registry;
use state_engine::{Event, Operation, Report, Run};
use state_manager::{Actor, Environment, LogQuery};
use std::sync::{Arc, Mutex};

/// Its middle is a word, its ends are what shells split at.
const TOKEN: &str = "s3;k/anary'$x";
const LINES: &str = "first canary line\nsecond canary line\n";
const PIN: &str = "12345678";

/// Runs commands on a stack that stores all as it is, and hears what is told.
struct Told {
    stage: Stage,
    folder: tempfile::TempDir,
    told: Arc<Mutex<String>>,
}

impl Told {
    async fn new(seed: u64) -> Self {
        Self {
            stage: Stage::new(seed).await,
            folder: tempfile::tempdir().unwrap(),
            told: Arc::default(),
        }
    }

    async fn run(&self, operation: Operation) -> Report {
        let mut run = Run::new(registry(
            &Environment::system(Actor::default()),
            self.folder.path(),
        ));
        run.options.timeout = None;
        run.options.continue_on_error = true;
        let told = Arc::clone(&self.told);
        run.observer = Arc::new(move |event: &Event| {
            let mut told = told.lock().unwrap();
            match event {
                Event::Log(line) => *told += &line.message,
                event => *told += &format!("{event:?}"),
            }
            told.push('\n');
        });
        let report = self.stage.run(operation, run).await;
        *self.told.lock().unwrap() += &format!("{report:?} {:?}\n", report.failures);
        report
    }

    async fn up(&self, text: &str) -> Report {
        let given = [("token", TOKEN), ("lines", LINES), ("pin", PIN)];
        let source = source(text, &given, None).await.unwrap();
        self.run(Operation::Update(Box::new(source))).await
    }

    /// All that was told live, in reports, and in stored logs.
    async fn all(&self) -> String {
        let lines = self.stage.stack.logs(&LogQuery::default()).await.unwrap();
        let stored: Vec<String> = lines.iter().map(|line| line.line.message.clone()).collect();
        assert!(!stored.is_empty());
        format!("{}{}", self.told.lock().unwrap(), stored.join("\n"))
    }

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
async fn a_secret_in_a_command_is_told_by_nobody_from_its_create_to_its_delete() {
    let told = Told::new(31).await;
    let job = r#"
  job:
    kind: command
    inputs:
      shell: true
      create: |
        cat > /dev/null; cat >&2 <<'END'
        plain words
        bearer ${config.token} of ${config.pin}
        ${config.lines}
        END
      read: |
        cat >&2 <<'END'
        looks ${config.token} ${config.pin}
        END
      delete: |
        cat >&2 <<'END'
        away ${config.token} ${config.pin}
        END
        exit 7
  other:
    kind: command
    inputs: { shell: true, create: "echo create bearer 77 >&2" }
"#;
    let report = told.up(&format!("{CONFIG}{job}")).await;
    assert!(report.succeeded(), "{report:?}");
    assert!(told.run(Operation::Refresh).await.succeeded());
    // It fails, and quotes what it may.
    let report = told.run(Operation::Destroy).await;
    assert_eq!(report.failures.len(), 1, "{report:?}");
    told.assert_silent().await;
    let all = told.all().await;
    for open in ["create bearer 77", "exit status: 7", "***"] {
        assert!(all.contains(open), "{open}: {all}");
    }
}

#[tokio::test]
async fn a_secret_in_lists_and_maps_is_not_told_and_marks_what_is_printed() {
    let told = Told::new(32).await;
    let jobs = r#"
  job:
    kind: command
    inputs:
      create: [sh, -c, 'printf "%s\n" "$0" "$STATE_INPUTS" >&2; echo "got $0"', "${config.token}+${config.pin}"]
      triggers: { deep: ["pin=${config.pin}", { a: "x ${config.token}" }] }
  printed:
    kind: command
    inputs: { shell: true, create: "cat <<'END'\n${config.token}\nEND" }
  absent:
    kind: command
    inputs: { create: ["/no/${config.token}/program"] }
  left:
    kind: command
    inputs: { create: [sh, -c, 'echo "left $0" >&2; exit 3', "a ${config.token}"] }
"#;
    let report = told.up(&format!("{CONFIG}{jobs}")).await;
    assert_eq!(report.failures.len(), 2, "{report:?}");
    told.assert_silent().await;
    let all = told.all().await;
    assert!(all.contains("it contains a secret"), "{all}");
    assert!(all.contains("exit status: 3"), "{all}");
    for job in ["job", "printed"] {
        let marks = &told.stage.entry(job).unwrap().sensitive_outputs;
        assert_eq!(*marks, ["/stdout"], "{job} prints it");
    }
    told.run(Operation::Destroy).await;
    told.assert_silent().await;
}

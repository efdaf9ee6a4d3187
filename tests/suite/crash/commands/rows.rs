//! The table of commands that the tests kill, and the commands that they leave out.

use super::scenes::Scene;

/// A recipient of a colleague.
const COLLEAGUE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// Whether new stacks are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Policy {
    Plain,
    Sealed,
}

impl Policy {
    /// The value of `STATECTL_POLICY`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plaintext",
            Self::Sealed => "sensitive",
        }
    }
}

/// The states that an interrupted command may leave besides the ones before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    /// A store without a stack, or with an empty one, where there was no store.
    EmptyStack,
    /// Some of the resources were changed, or some of the files were copied.
    Steps,
}

/// One command in one scene.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The command as `statectl --help` lists it.
    pub(super) command: &'static str,
    /// The arguments, separated by spaces. A word `@NAME` means the content of the file NAME.
    pub(super) arguments: String,
    pub(super) scene: Scene,
    /// A shell script that completes the scene.
    pub(super) script: &'static str,
    pub(super) policies: &'static [Policy],
    pub(super) between: Between,
    /// Whether the command has no further effect, and exits with code 0, if it is repeated after its end.
    pub(super) repeats: bool,
    /// Whether an earlier revision of the sealed stack contains the secret in plaintext.
    pub(super) was_plain: bool,
    /// Commands whose output depends on the effect of the command, besides the state and the history.
    pub(super) probes: &'static [&'static str],
}

impl Row {
    fn new(command: &'static str, rest: &str) -> Self {
        Self {
            command,
            arguments: format!("{command} {rest}"),
            scene: Scene::Imported,
            script: "",
            policies: &[Policy::Plain, Policy::Sealed],
            between: Between::Nothing,
            repeats: false,
            was_plain: false,
            probes: &[],
        }
    }

    const fn scene(mut self, scene: Scene, script: &'static str) -> Self {
        self.scene = scene;
        self.script = script;
        self
    }

    const fn only(mut self, policies: &'static [Policy]) -> Self {
        self.policies = policies;
        self
    }

    const fn between(mut self, between: Between) -> Self {
        self.between = between;
        self
    }

    const fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    const fn was_plain(mut self) -> Self {
        self.was_plain = true;
        self
    }

    const fn probes(mut self, probes: &'static [&'static str]) -> Self {
        self.probes = probes;
        self
    }
}

/// Returns the rows of all commands that write.
pub(super) fn rows() -> Vec<Row> {
    [stacks(), runs(), edits(), keys(), memory(), maintenance()].concat()
}

fn stacks() -> Vec<Row> {
    vec![
        Row::new("init", "").scene(Scene::Empty, "").repeats(),
        Row::new("import", "one.json")
            .scene(Scene::Empty, "")
            .between(Between::EmptyStack)
            .repeats(),
        Row::new("import", "two.json").repeats(),
        Row::new("stack new", "other"),
        Row::new("stack rm", "default --force"),
        Row::new("stack rename", "default shop"),
        Row::new("copy", ".state file://there")
            .between(Between::Steps)
            .repeats()
            .probes(&["history --json --backend file://there"]),
    ]
}

fn runs() -> Vec<Row> {
    let steps = |row: Row| row.between(Between::Steps).repeats();
    let up = "--config token=@canary";
    let update = "--config token=@canary --config text=two";
    vec![
        steps(Row::new("up", up).scene(Scene::Empty, "")),
        steps(Row::new("up", update).scene(Scene::Deployed, "")),
        steps(Row::new("up", "").scene(Scene::Pending, "")),
        steps(Row::new("up", "").scene(Scene::Spooled, "")),
        steps(Row::new("refresh", "").scene(Scene::Deployed, "rm out/page")),
        steps(Row::new("destroy", "").scene(Scene::Deployed, "")),
        // The lock of the killed run is taken over first, which records the interrupted run as a revision.
        Row::new("pending resolve", "@operation --not-done")
            .scene(Scene::Pending, "")
            .between(Between::Steps),
        Row::new("pending resolve", "--from @spooled")
            .scene(Scene::Spooled, "")
            .repeats(),
        Row::new("pending trust", "")
            .scene(
                Scene::Pending,
                "statectl pending resolve $(cat operation) --not-done",
            )
            .repeats(),
    ]
}

fn edits() -> Vec<Row> {
    vec![
        Row::new("rollback", "1"),
        Row::new("undo", ""),
        Row::new("mv", "terraform_data.network terraform_data.net"),
        Row::new(
            "mv",
            "terraform_data.network terraform_data.database --to-stack other --stack default",
        )
        .scene(Scene::Imported, "statectl stack new other"),
        Row::new("rm", "terraform_data.database --force"),
        Row::new("protect", "terraform_data.network").repeats(),
        Row::new("unprotect", "terraform_data.database").repeats(),
        Row::new("taint", "terraform_data.network").repeats(),
        Row::new("untaint", "terraform_data.database")
            .scene(Scene::Imported, "statectl taint terraform_data.database --yes")
            .repeats(),
        Row::new("edit", "terraform_data.network").repeats(),
        Row::new("apply-edits", "edits.json").repeats(),
    ]
}

fn keys() -> Vec<Row> {
    let sealed = |command, rest: &str| Row::new(command, rest).only(&[Policy::Sealed]);
    vec![
        Row::new("encrypt", "")
            .only(&[Policy::Plain])
            .was_plain()
            .scene(Scene::Imported, "statectl identity --new")
            .probes(&["recipients list"]),
        sealed("recipients add", COLLEAGUE)
            .probes(&["recipients list"])
            .repeats(),
        sealed("recipients add", &format!("--name bob {COLLEAGUE}"))
            .probes(&["recipients list"])
            .repeats(),
        sealed("recipients add", &format!("--outputs {COLLEAGUE}"))
            .probes(&["recipients list"])
            .repeats(),
        sealed("recipients remove", COLLEAGUE)
            .scene(
                Scene::Imported,
                "statectl recipients add age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
            )
            .probes(&["recipients list"]),
        sealed("rekey", ""),
        sealed("rekey", "--forget-history").between(Between::Steps),
        sealed("secret seal", "terraform_data.network"),
    ]
}

fn memory() -> Vec<Row> {
    vec![
        Row::new("identity", "--new")
            .scene(Scene::Empty, "")
            .probes(&["identity"])
            .repeats(),
        Row::new("login", ".state").probes(&["config show"]).repeats(),
        Row::new("logout", "")
            .scene(Scene::Imported, "statectl login .state")
            .probes(&["config show"])
            .repeats(),
        // A reader that doesn't know the stack remembers it.
        Row::new("list", "")
            .scene(Scene::Imported, "rm -rf \"$XDG_STATE_HOME\"")
            .repeats(),
        Row::new("trust", "--accept")
            .scene(
                Scene::Imported,
                "cp -a .state earlier
                 statectl taint terraform_data.network --yes
                 rm -rf .state
                 mv earlier .state",
            )
            .repeats(),
        Row::new("trust commands", "")
            .scene(Scene::Deployed, "rm -rf \"$XDG_STATE_HOME\"")
            .repeats(),
        Row::new("trust path", "state.yaml")
            .scene(Scene::Deployed, "chmod 666 state.yaml")
            .probes(&["preview --config token=@canary"])
            .repeats(),
    ]
}

fn maintenance() -> Vec<Row> {
    let acquire = "statectl lock acquire -m freeze --json | tr ',{' '\\n\\n' \
                   | sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -n 1 >lock
                   test -s lock";
    vec![
        Row::new("gc", "--keep-days 0 --keep-revisions 1 --grace 0s").repeats(),
        Row::new("doctor", "").repeats(),
        Row::new("lock acquire", "-m freeze").probes(&["lock status"]),
        Row::new("lock release", "@lock")
            .scene(Scene::Imported, acquire)
            .probes(&["lock status"]),
        Row::new("lock break", "--id @lock")
            .scene(Scene::Imported, acquire)
            .probes(&["lock status"]),
    ]
}

/// Why a command that only reads is left out.
const READS: &str = "reads";

/// The commands that are in no row, each with the reason.
pub(super) const EXCUSED: &[(&str, &str)] = &[
    ("backends", READS),
    ("blame", READS),
    ("completions", READS),
    ("config show", READS),
    ("diff", READS),
    ("find", READS),
    ("graph", READS),
    ("history", READS),
    ("kinds", READS),
    ("lock status", READS),
    ("logs", READS),
    ("outputs", READS),
    ("pending list", READS),
    ("preview", READS),
    ("recipients list", READS),
    ("schema", READS),
    ("secret decrypt", READS),
    ("secret encrypt", READS),
    ("secret scan", READS),
    ("show", READS),
    ("stack ls", READS),
    ("verify", READS),
    ("whoami", READS),
    ("export", "writes no file except the one that the user names"),
    (
        "repair",
        "commits like `apply-edits`, and needs a state that only a damaged store has",
    ),
    (
        "restore",
        "`crates/state-cli/tests/cli/kills/recovery.rs` kills it",
    ),
    (
        "salvage",
        "`crates/state-cli/tests/cli/kills/recovery.rs` kills it",
    ),
    ("run", "`tests/suite/terraform/locks.rs` kills it and its command"),
    ("serve", "`tests/suite/terraform/locks.rs` kills it"),
];

//! Compares `statectl` with Terraform: `cargo xtask bench cli`.
//!
//! Both programs run the same commands on the same states, in pairs whose order changes from round to round, and every edit
//! changes another resource. The ratio of a row is the median of the ratios of its rounds. CPU time is that of the whole
//! process (user and system); it depends less on other load of the machine than wall time does.

mod measure;
mod pairs;
mod state;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Failure, cargo, probe, run as run_command, target};
use measure::Measurement;
use pairs::{OWN, PAIRS, Pair, Program};
use summary::{OwnRatio, Row};

/// The numbers of instances that are measured by default.
const SIZES: [usize; 2] = [10_000, 50_000];

/// The number of rounds by default.
const ROUNDS: usize = 3;

/// The policies of our stacks: that of a new stack by default, and the one that stores secrets in plaintext.
const POLICIES: [&str; 2] = ["sensitive", "plaintext"];

/// What the command line selects.
struct Options {
    sizes: Vec<usize>,
    rounds: usize,
    policies: Vec<String>,
    binary: Option<PathBuf>,
}

/// Runs the benchmark and prints its tables.
#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
pub(super) fn run(args: &[&str]) -> Result<(), Failure> {
    let options = options(args)?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => {
            run_command(&mut cargo(["build", "--release", "-p", "state-cli"]))?;
            target().join("release/statectl")
        }
    };
    let binary = binary
        .canonicalize()
        .map_err(|error| Failure(format!("{}: {error}", binary.display())))?;
    measure::require_tools()?;
    let terraform = probe(terraform_environment(Command::new("terraform").arg("version")));
    match &terraform {
        Some(output) => println!("{}", first_line(&output.stdout)),
        None => println!("SKIP: no `terraform` on the PATH; only our own commands are measured"),
    }
    let folder = target().join(format!("bench-cli-{}", std::process::id()));
    let measured = options.sizes.iter().try_for_each(|&size| {
        for policy in &options.policies {
            let bench = Bench {
                binary: &binary,
                with_terraform: terraform.is_some(),
                folder: folder.join(format!("{size}-{policy}")),
                policy,
                size,
            };
            bench.run(options.rounds)?;
        }
        Ok(())
    });
    // The folder has several gigabytes, so it is also removed after an error.
    let removed = fs::remove_dir_all(&folder);
    measured.and(removed.map_err(|error| Failure(format!("{}: {error}", folder.display()))))
}

fn options(args: &[&str]) -> Result<Options, Failure> {
    let mut options = Options {
        sizes: SIZES.to_vec(),
        rounds: ROUNDS,
        policies: POLICIES.map(str::to_owned).to_vec(),
        binary: None,
    };
    let usage = || {
        Failure(
            "usage: `cargo xtask bench cli [--sizes N,N] [--rounds N] [--policies NAME,NAME] [--binary FILE]`"
                .to_owned(),
        )
    };
    for pair in args.chunks(2) {
        let &[name, value] = pair else {
            return Err(usage());
        };
        match name {
            "--sizes" => {
                let sizes: Result<_, _> = value.split(',').map(str::parse).collect();
                options.sizes = sizes.map_err(|_| usage())?;
            }
            "--rounds" => options.rounds = value.parse().map_err(|_| usage())?,
            "--policies" => options.policies = value.split(',').map(str::to_owned).collect(),
            "--binary" => options.binary = Some(value.into()),
            _ => return Err(usage()),
        }
    }
    let has_small = options.sizes.iter().any(|&size| size < state::FREE);
    match has_small || options.rounds == 0 || options.rounds > state::FREE / 4 {
        true => Err(usage()),
        false => Ok(options),
    }
}

/// The programs on one state.
struct Bench<'a> {
    binary: &'a Path,
    with_terraform: bool,
    folder: PathBuf,
    policy: &'a str,
    size: usize,
}

impl Bench<'_> {
    #[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
    fn run(&self, rounds: usize) -> Result<(), Failure> {
        let length = self.prepare()?;
        println!(
            "\n{} instances ({} MB, {:.2} KB each), policy `{}`, {rounds} rounds\n",
            self.size,
            length / 1_000_000,
            length as f64 / 1e3 / self.size as f64,
            self.policy
        );
        let mut rows: Vec<Row> = PAIRS.iter().map(|pair| Row::new(pair.name)).collect();
        let mut own: Vec<OwnRatio> = OWN.iter().map(OwnRatio::new).collect();
        for round in 0..rounds {
            for (place, pair) in PAIRS.iter().enumerate() {
                self.pair(pair, round, &mut rows[place])?;
                let mut is_last_of_pair = false;
                for (ratio, command) in own.iter_mut().zip(&OWN).filter(|(_, own)| own.after == pair.name) {
                    let other = rows.iter().find(|row| row.name == command.beside);
                    let other = other.and_then(|row| row.ours.last()).copied();
                    let arguments = command.arguments.iter().map(|&word| word.to_owned());
                    ratio.add(
                        self.ours(&arguments.collect::<Vec<_>>())?,
                        other.unwrap_or_default(),
                    );
                    is_last_of_pair = true;
                }
                if is_last_of_pair {
                    self.require_same_list()?;
                }
            }
        }
        summary::print(&rows, &own);
        fs::remove_dir_all(&self.folder).map_err(|error| self.failed(&error))
    }

    /// Writes the state, and imports it into a new store. Returns the length of the file.
    fn prepare(&self) -> Result<u64, Failure> {
        for program in [Program::Ours, Program::Terraform] {
            fs::create_dir_all(self.folder.join(program.folder())).map_err(|error| self.failed(&error))?;
        }
        let file = self.folder.join("terraform/terraform.tfstate");
        state::write(&file, self.size, 1).map_err(|error| self.failed(&error))?;
        self.ours(&["import".to_owned(), file.display().to_string()])?;
        fs::metadata(&file)
            .map(|metadata| metadata.len())
            .map_err(|error| self.failed(&error))
    }

    /// Runs a command of both programs; which of them is first changes from round to round.
    fn pair(&self, pair: &Pair, round: usize, row: &mut Row) -> Result<(), Failure> {
        let pushed = self.folder.join("pushed.tfstate");
        if pair.needs_file {
            // Changed bytes and a higher serial, so that both programs must store it.
            state::write(&pushed, self.size, 1_000 * (round as u64 + 1))
                .map_err(|error| self.failed(&error))?;
        }
        for turn in 0..2 {
            if (round + turn).is_multiple_of(2) {
                row.ours.push(self.ours(&(pair.ours)(round, self.size, &pushed))?);
            } else if self.with_terraform {
                let arguments = (pair.terraform)(round, self.size, &pushed);
                row.terraform.push(self.terraform(&arguments)?);
            }
        }
        Ok(())
    }

    fn ours(&self, arguments: &[String]) -> Result<Measurement, Failure> {
        let mut command = Command::new(self.binary);
        command.args(arguments);
        for name in ["BACKEND", "STACK", "IDENTITY", "PASSPHRASE"] {
            command.env_remove(format!("STATECTL_{name}"));
        }
        command
            .env("XDG_CONFIG_HOME", self.folder.join("settings"))
            .env("XDG_STATE_HOME", self.folder.join("seen"))
            .env("STATECTL_POLICY", self.policy);
        measure::run(&command, &self.folder, Program::Ours)
    }

    fn terraform(&self, arguments: &[String]) -> Result<Measurement, Failure> {
        let mut command = Command::new("terraform");
        terraform_environment(command.args(arguments));
        let measured = measure::run(&command, &self.folder, Program::Terraform);
        self.remove_backups().and(measured)
    }

    /// Removes the backups of Terraform, which each have the size of the state.
    fn remove_backups(&self) -> Result<(), Failure> {
        let folder = self.folder.join(Program::Terraform.folder());
        let files = fs::read_dir(folder).map_err(|error| self.failed(&error))?;
        for file in files {
            let file = file.map_err(|error| self.failed(&error))?;
            if file
                .path()
                .extension()
                .is_some_and(|extension| extension == "backup")
            {
                fs::remove_file(file.path()).map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }

    /// Fails unless both programs list the same addresses after the same edits.
    fn require_same_list(&self) -> Result<(), Failure> {
        if !self.with_terraform {
            return Ok(());
        }
        let listed = |program: Program, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
            match program {
                Program::Ours => self.ours(&arguments)?,
                Program::Terraform => self.terraform(&arguments)?,
            };
            let output = measure::output(&self.folder, program)?;
            let mut lines: Vec<String> = output.lines().map(str::to_owned).collect();
            lines.sort();
            Ok::<_, Failure>(lines)
        };
        let ours = listed(Program::Ours, &["list"])?;
        if ours == listed(Program::Terraform, &["state", "list"])? {
            return Ok(());
        }
        Err(Failure(
            "the programs list different resources after the same edits".to_owned(),
        ))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure(format!("{}: {error}", self.folder.display()))
    }
}

/// Keeps the settings of this user and the check for new versions out of the measurement.
fn terraform_environment(command: &mut Command) -> &mut Command {
    for name in ["TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_LOG", "TF_WORKSPACE"] {
        command.env_remove(name);
    }
    command
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_IN_AUTOMATION", "1")
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next().unwrap_or_default().to_owned()
}

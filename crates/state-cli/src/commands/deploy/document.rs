//! Finds and reads the program, and the values given by `--config`.

use super::stack_choice::ProgramName;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::ownership;
use crate::settings::file::here;
use crate::store;
use state_core::Crypter;
use state_engine::program::Program;
use state_engine::{ListSource, Registry, builtin};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// File names of a program that is not named on the command line.
pub(crate) const PROGRAM_NAMES: [&str; 3] = ["state.yaml", "state.yml", "state.json"];

/// Upper limit of the size of a program and of a configuration value.
const MAX_BYTES: u64 = 64 << 20;

/// Arguments of the commands that run a program.
#[derive(Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// The program in YAML or JSON
    ///
    /// The default is `state.yaml`, `state.yml` or `state.json` in the current folder.
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Replace this resource even if it is unchanged; repeatable
    ///
    /// With `*` (any text) or `?` (one character), replaces all matching resources.
    #[arg(long, value_name = "ADDR")]
    pub(super) replace: Vec<String>,
    /// Read all recorded resources first to detect drift
    #[arg(long)]
    pub(super) refresh: bool,
}

/// Configuration values of a program.
#[derive(Debug, clap::Args)]
struct ConfigArgs {
    /// Set a configuration value of the program; repeatable
    ///
    /// `NAME=@FILE` reads the value from a file. Use it for secrets, because other users can read command lines.
    #[arg(long, value_name = "NAME=VALUE", value_parser = clap::value_parser!(ConfigArg))]
    config: Vec<ConfigArg>,
}

/// The program of a command that works on recorded resources, and needs none.
#[derive(Debug, clap::Args)]
pub(super) struct DeclaringArgs {
    /// The program that declares the resources
    ///
    /// The commands that it declares for its resources run without an approval by `statectl trust commands`, for example in
    /// CI. A command whose inputs depend on other resources still needs one. A program in the current folder that isn't
    /// named here only selects the stack.
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// An argument of `--config`, which may be secret even if it isn't of the form `NAME=VALUE`.
#[derive(Clone)]
struct ConfigArg(String);

impl From<String> for ConfigArg {
    /// Accepts every text: an error here would make clap print the text, which may be a secret.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl ConfigArg {
    fn read(&self) -> Result<(String, String), CliError> {
        let Some((name, value)) = self.0.split_once('=') else {
            return Err(CliError::usage("--config", "expected `NAME=VALUE`"));
        };
        let Some(file) = value.strip_prefix('@') else {
            return Ok((name.to_owned(), value.to_owned()));
        };
        let bytes = read(Path::new(file))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = format!("the value of `{name}` isn't UTF-8");
            CliError::failed(file, &message)
        })?;
        // Editors end a file with a newline that isn't part of the value.
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok((name.to_owned(), text.to_owned()))
    }
}

impl fmt::Debug for ConfigArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigArg(…)")
    }
}

/// Hint for errors about kinds and their properties.
const KINDS: &str =
    "list all kinds with `statectl kinds`, and the inputs and outputs of one with `statectl kinds KIND`";

/// A parsed program and its configuration values.
pub(super) struct Document {
    program: Program,
    given: BTreeMap<String, String>,
    /// Whether the user named the program, as opposed to one that was found in the current folder.
    pub(super) is_named: bool,
    /// The folder that contains the program.
    pub(super) folder: PathBuf,
}

impl Document {
    /// Reads, parses and checks the program, as far as possible without a stack.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] with all problems of the program.
    pub(super) fn read(context: &Context, args: &ProgramArgs) -> Result<Self, CliError> {
        match &args.program {
            Some(path) => Self::parse(context, path, &read(path)?, &args.config, true),
            None => {
                let path = find_program()?;
                Self::parse(context, &path, &read_found(&path)?, &args.config, false)
            }
        }
    }

    /// Reads the program that the user named for a command that needs none; none if the user named none. A program that was
    /// only found must not make commands of a state run: the folder may be someone else's project.
    ///
    /// # Errors
    /// As [`Self::read`]; [`ExitCode::Usage`] for values without a program.
    pub(super) fn read_named(context: &Context, args: &DeclaringArgs) -> Result<Option<Self>, CliError> {
        match &args.program {
            Some(path) => Self::parse(context, path, &read(path)?, &args.config, true).map(Some),
            None if args.config.config.is_empty() => Ok(None),
            None => Err(CliError::usage(
                "--config",
                "the values are for a program: name it on the command line",
            )),
        }
    }

    fn parse(
        context: &Context,
        path: &Path,
        bytes: &[u8],
        args: &ConfigArgs,
        is_named: bool,
    ) -> Result<Self, CliError> {
        let name = path.display().to_string();
        let mut given = BTreeMap::new();
        for one in &args.config {
            let (name, value) = one.read()?;
            if given.insert(name.clone(), value).is_some() {
                let object = format!("--config {name}");
                return Err(CliError::usage(object, "given twice"));
            }
        }
        let program = Program::parse(&name, bytes)?;
        let checked = program.check(&registry(context)?);
        checked.map_err(|error| CliError::from(error).with_hint(KINDS))?;
        Ok(Self {
            program,
            given,
            is_named,
            folder: folder_of(path),
        })
    }

    /// The name under which the program is recorded in its stack.
    pub(super) fn name(&self) -> ProgramName {
        ProgramName::new(self.program.title())
    }

    /// The program as the engine's source for one stack, whose crypter decrypts encrypted configuration values.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] with all problems of the program.
    pub(super) async fn source(&self, crypter: Option<&dyn Crypter>) -> Result<ListSource, CliError> {
        let configured = self.program.configure(self.given.clone(), crypter).await?;
        Ok(configured.into_source()?)
    }
}

/// The providers of all resource kinds.
pub(crate) fn registry(context: &Context) -> Result<Registry, CliError> {
    let (environment, folder) = (&context.environment, here()?);
    Ok(match store::locks_folder() {
        Some(locks) => builtin::registry_with_locks(environment, &folder, &locks),
        None => builtin::registry(environment, &folder),
    })
}

/// The name of the program in the current folder; none if there is not exactly one program that can be parsed. A broken
/// program must not prevent its resources from being destroyed.
///
/// # Errors
/// [`ExitCode::Unapproved`] if the program isn't the user's own.
pub(super) fn program_at_hand() -> Result<Option<ProgramName>, CliError> {
    let Ok(path) = find_program() else {
        return Ok(None);
    };
    let bytes = match read_found(&path) {
        Err(error) if error.code == ExitCode::Unapproved => return Err(error),
        Err(_) => return Ok(None),
        Ok(bytes) => bytes,
    };
    let program = Program::parse(&path.display().to_string(), &bytes).ok();
    Ok(program.map(|program| ProgramName::new(program.title())))
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

fn find_program() -> Result<PathBuf, CliError> {
    let there: Vec<&str> = PROGRAM_NAMES
        .into_iter()
        // Reading a pipe would wait for its writer.
        .filter(|name| Path::new(name).is_file())
        .collect();
    match &*there {
        [only] => Ok(PathBuf::from(only)),
        [] => {
            let message = format!(
                "not found in this folder (looked for {})",
                PROGRAM_NAMES.join(", ")
            );
            Err(CliError::not_found("program", &message).with_hint("name a program: `statectl up PROGRAM`"))
        }
        several => {
            let message = format!("several programs in this folder: {}", several.join(", "));
            Err(CliError::usage("program", &message)
                .with_hint(format!("name one of them: `statectl up {}`", several[0])))
        }
    }
}

/// Reads a file that the user named.
fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    read_opened(path, open(path)?)
}

/// Reads a program that was found, if it is the user's own.
fn read_found(path: &Path) -> Result<Vec<u8>, CliError> {
    let file = open(path)?;
    ownership::require_own_file("program", &here()?.join(path), &file)?;
    read_opened(path, file)
}

fn open(path: &Path) -> Result<File, CliError> {
    crate::input::open(path).map_err(|source| CliError::io(path.display().to_string(), &source))
}

fn read_opened(path: &Path, file: File) -> Result<Vec<u8>, CliError> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| CliError::io(name.clone(), &source))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::failed(name, "the file is larger than 64 MiB"));
    }
    Ok(bytes)
}

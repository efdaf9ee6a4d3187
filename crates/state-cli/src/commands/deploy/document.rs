//! The program: where it lies, and what it is given.

use crate::context::Context;
use crate::error::CliError;
use crate::settings::file::here;
use state_core::Crypter;
use state_engine::program::Program;
use state_engine::{ListSource, Registry, builtin};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The names under which a program is looked for.
const NAMES: [&str; 3] = ["state.yaml", "state.yml", "state.json"];

/// More than that isn't a program, nor a setting.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// The program, in YAML or JSON. Default: `state.yaml`, `state.yml` or `state.json` here.
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Give a setting of the program its value; `NAME=@FILE` takes what the file holds, for what is secret. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = clap::value_parser!(Given))]
    config: Vec<Given>,
    /// Replace this, or with `*` and `?` all that match, whether or not it changed. May be repeated.
    #[arg(long, value_name = "ADDR")]
    pub(super) replace: Vec<String>,
    /// Read all that is recorded before, so that what was changed behind the program's back is seen.
    #[arg(long)]
    pub(super) refresh: bool,
}

/// A value for a setting, as it was given. Perhaps it is secret, even where no name stands before it.
#[derive(Clone)]
struct Given(String);

impl From<String> for Given {
    /// Never refused here: clap would tell the text.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Given {
    fn read(&self) -> Result<(String, String), CliError> {
        let Some((name, value)) = self.0.split_once('=') else {
            return Err(CliError::usage("--config", "it is written `NAME=VALUE`"));
        };
        let Some(file) = value.strip_prefix('@') else {
            return Ok((name.to_owned(), value.to_owned()));
        };
        let bytes = read(Path::new(file))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = format!("the value of `{name}` isn't UTF-8");
            CliError::failed(file, &message)
        })?;
        // As editors leave it; one that counts can be doubled.
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok((name.to_owned(), text.to_owned()))
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given(…)")
    }
}

/// Where to look up what is wrong with a kind and its properties.
const KINDS: &str =
    "`statectl kinds` lists the kinds that there are, `statectl kinds KIND` says what one takes and gives";

/// A program that was read, and what it is given.
pub(super) struct Document {
    program: Program,
    given: BTreeMap<String, String>,
    /// Where it lies.
    pub(super) folder: PathBuf,
}

impl Document {
    /// Reads and parses it, and judges what can be judged without a stack.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] with all that is wrong with it.
    pub(super) fn read(context: &Context, args: &ProgramArgs) -> Result<Self, CliError> {
        let path = match &args.program {
            Some(path) => path.clone(),
            None => found()?,
        };
        let name = path.display().to_string();
        let bytes = read(&path)?;
        let mut given = BTreeMap::new();
        for one in &args.config {
            let (name, value) = one.read()?;
            if given.insert(name.clone(), value).is_some() {
                let object = format!("--config {name}");
                return Err(CliError::usage(object, "it is given twice"));
            }
        }
        let program = Program::parse(&name, &bytes)?;
        let checked = program.check(&registry(context)?);
        checked.map_err(|error| CliError::from(error).with_hint(KINDS))?;
        Ok(Self {
            program,
            given,
            folder: folder_of(&path),
        })
    }

    /// The program as the engine wants it for one stack, whose crypter opens its sealed settings.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] with all that is wrong with it.
    pub(super) async fn source(&self, crypter: Option<&dyn Crypter>) -> Result<ListSource, CliError> {
        let configured = self.program.configure(self.given.clone(), crypter).await?;
        Ok(configured.into_source()?)
    }
}

/// Who is in charge of which kinds.
pub(super) fn registry(context: &Context) -> Result<Registry, CliError> {
    Ok(builtin::registry(&context.environment, &here()?))
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

fn found() -> Result<PathBuf, CliError> {
    let there: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| Path::new(name).exists())
        .collect();
    match &*there {
        [only] => Ok(PathBuf::from(only)),
        [] => {
            let message = format!("there is none here: no {}", NAMES.join(", no "));
            Err(CliError::not_found("the program", &message).with_hint("name it: `statectl up PROGRAM`"))
        }
        several => {
            let message = format!("there are several here: {}", several.join(", "));
            Err(CliError::usage("the program", &message)
                .with_hint(format!("name one: `statectl up {}`", several[0])))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let name = path.display().to_string();
    let failed = |source: std::io::Error| CliError::io(name.clone(), &source);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::failed(name, "it is too large"));
    }
    Ok(bytes)
}

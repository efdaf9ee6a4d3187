//! The command `secret`: finds values of a state that look like secrets, and encrypts them; encrypts and decrypts single
//! values with the stack's data key, for tools that keep such values in their own configuration.

mod findings;
mod readable;
mod scan;
mod seal;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Report;
use state_core::{Crypter, Error};
use state_manager::Stack;
use std::collections::BTreeMap;
use std::io::Read;
use zeroize::{Zeroize, Zeroizing};

/// Upper limit of the input from stdin.
const MAX_BYTES: u64 = 16 << 20;

/// Hint if there is no store. Mentions the stack too, because a store without a stack has no data key.
const NO_STORE: &str = "values are encrypted with a stack's data key: run `statectl init` and `statectl stack new NAME` \
                        first, or name another store with `--backend URL`";

/// All subcommands of `statectl secret`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Encrypt a value from stdin
    Encrypt(Args),
    /// Decrypt a value from stdin
    Decrypt(Args),
    Scan(scan::Args),
    Seal(seal::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the value
    ///
    /// A value can be decrypted only under the name that it was encrypted with.
    #[arg(value_name = "NAME", required_unless_present = "batch")]
    name: Option<String>,
    /// Read and print a JSON object of names and values
    #[arg(long, conflicts_with = "name")]
    batch: bool,
}

/// Runs a subcommand of `secret`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::Scan(args) => scan::run(context, args).await,
        Command::Seal(args) => seal::run(context, args).await,
        Command::Encrypt(args) => encrypt(context, args).await,
        Command::Decrypt(args) => decrypt(context, args).await,
    }
}

async fn encrypt(context: &Context, args: &Args) -> CommandResult {
    let given = stdin()?;
    let crypter = chosen(context).await?.encrypter("secret").await?;
    if let Some(name) = &args.name {
        let sealed = crypter.encrypt(name, &given)?;
        return printed(context, &sealed);
    }
    let values = batch(&given)?;
    let pairs: Vec<(&str, &[u8])> = values
        .iter()
        .map(|(name, value)| (&**name, value.as_bytes()))
        .collect();
    let sealed = crypter.encrypt_all(&pairs)?;
    printed_batch(context, values.keys().zip(sealed))
}

async fn decrypt(context: &Context, args: &Args) -> CommandResult {
    let given = stdin()?;
    let crypter = chosen(context).await?.crypter().await.map_err(foreign)?;
    if let Some(name) = &args.name {
        let token = text(&given)?.trim();
        let opened = crypter.decrypt(name, token).map_err(foreign)?;
        let warnings = earlier_keys(&*crypter, [(name, token)]);
        if context.output.json {
            return Ok(printed(context, value(name, &opened)?)?.warned(warnings));
        }
        return Ok(Report::raw(opened, warnings));
    }
    let values = batch(&given)?;
    let pairs: Vec<(&str, &str)> = values.iter().map(|(name, value)| (&**name, &**value)).collect();
    let opened = crypter.decrypt_all(&pairs).map_err(foreign)?;
    let opened = values
        .keys()
        .zip(&opened)
        .map(|(name, bytes)| Ok((name, value(name, bytes)?.to_owned())));
    let report = printed_batch(context, opened.collect::<Result<Vec<_>, CliError>>()?.into_iter())?;
    let named = values.iter().map(|(name, token)| (name, token.as_str()));
    Ok(report.warned(earlier_keys(&*crypter, named)))
}

/// A warning for each value that is encrypted with an earlier key of the stack. A removed recipient who keeps such a key can
/// make the value.
fn earlier_keys<'a>(
    crypter: &dyn Crypter,
    values: impl IntoIterator<Item = (&'a String, &'a str)>,
) -> Vec<String> {
    let warning = |(name, token): (&String, &str)| {
        let key = crypter.earlier_key(token)?;
        Some(format!(
            "secret `{}` is encrypted with the earlier key {key}, which removed recipients may have: encrypt it again with \
             `statectl secret encrypt`, and refuse earlier keys with `--expect-key`",
            name.escape_debug()
        ))
    };
    values.into_iter().filter_map(warning).collect()
}

/// Texts of errors about a data key that no available identity opens.
const UNOPENED: [&str; 2] = ["no available identity opens its key", "can't be opened"];

/// The error for a value that this stack's keys don't decrypt.
fn foreign(error: Error) -> CliError {
    let is_unopened = |reason: &str| UNOPENED.iter().any(|text| reason.contains(text));
    match error {
        Error::Sealed { ref reason, .. } if !is_unopened(reason) => CliError::from(error)
            .with_hint("decrypt the value under the name, and in the stack (`--stack NAME`), with which it was encrypted"),
        other => other.into(),
    }
}

/// The stack that the user named, or the only stack.
async fn chosen(context: &Context) -> Result<Stack, CliError> {
    let stacks = context.store.open().await.map_err(|error| match error.code {
        ExitCode::NotFound => error.with_hint(NO_STORE),
        _ => error,
    })?;
    context.store.chosen(&stacks).await
}

fn stdin() -> Result<Zeroizing<Vec<u8>>, CliError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let mut limited = std::io::stdin().lock().take(MAX_BYTES + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|source| CliError::io("stdin", &source))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::failed(
            "stdin",
            "the input is larger than the limit of 16 MiB",
        ));
    }
    Ok(bytes)
}

fn text(bytes: &[u8]) -> Result<&str, CliError> {
    std::str::from_utf8(bytes).map_err(|_| CliError::failed("stdin", "not an encrypted value"))
}

/// A decrypted value as text. Bytes that aren't UTF-8 are refused, because a JSON string can't contain them.
fn value<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, CliError> {
    std::str::from_utf8(bytes).map_err(|_| {
        CliError::failed(
            format!("secret `{}`", name.escape_debug()),
            "the value isn't UTF-8, so it can't be printed as JSON",
        )
        .with_hint("print the raw bytes with `statectl secret decrypt NAME`, without `--json` and `--batch`")
    })
}

/// Names and values of a batch. The values are wiped from memory on drop.
struct Values(BTreeMap<String, String>);

impl std::ops::Deref for Values {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

fn batch(bytes: &[u8]) -> Result<Values, CliError> {
    // The parser's own message may quote a secret value, so only the position is reported.
    serde_json::from_slice(bytes).map(Values).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("not a JSON object of strings, at line {line}, column {column}");
        CliError::failed("stdin", &message)
    })
}

fn printed(context: &Context, value: &str) -> CommandResult {
    context.report("secret", &value, Vec::new(), |page| page.line(value))
}

fn printed_batch<'a>(context: &Context, values: impl Iterator<Item = (&'a String, String)>) -> CommandResult {
    let values: BTreeMap<&String, String> = values.collect();
    context.report("secret-batch", &values, Vec::new(), |page| {
        // A map of strings can always be serialized, so the default is never used.
        let text = serde_json::to_string_pretty(&values).unwrap_or_default();
        text.lines().for_each(|line| page.line(line));
    })
}

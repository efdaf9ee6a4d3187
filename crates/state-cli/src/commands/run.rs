//! The command `run`: runs Terraform, or a command that calls it, with a stack as its backend.

mod child;
mod environment;
mod ownership;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::formats;
use crate::identities::NewStack;
use crate::output::{Report, line_to_stderr};
use crate::target::Target;
use environment::Variables;
use ownership::RunFile;
use state_manager::Stack;
use state_server::session::RunId;
use state_server::{Access, AuditLog, AuditRecord, Server, ServerHandle, Sessions, Token};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run Terraform with a stack as its backend
///
/// Starts a private server on 127.0.0.1 for the time of the command, and passes its address and a one-time password to the
/// command in the variables TF_HTTP_*. The configuration needs one line:
///
///   terraform { backend "http" {} }
///
/// Creates the store and the stack `default` if they don't exist. Each state that Terraform writes becomes one revision, and
/// sensitive values are encrypted as by `statectl import`. Exits with the exit code of the command.
///
/// A lock that the command takes ends with the command, also if it was killed. If `statectl run` itself was killed, the next
/// `statectl run` of the same user on this machine releases the lock, once the command has ended too.
///
/// Terraform's http backend has no workspaces: use one stack for each, with `--stack`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sealing: NewStack,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Name of the only user of the private server.
const USER: &str = "statectl";

/// Commands of Terraform that always read or write the state.
const STATE_COMMANDS: [&str; 7] = ["init", "plan", "apply", "destroy", "refresh", "import", "state"];

/// Runs the command `run`, and returns a report with the exit code of the command.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    environment::refuse_workspace()?;
    let target = Target::prepare(context, &args.sealing).await?;
    announce(context, &target);
    let run = RunId::new(context.environment.entropy.bits());
    let file = RunFile::create(target.stack.lineage(), &run)?;
    let clock = Arc::clone(&context.environment.clock);
    let sessions = Sessions::new(target.stacks.clone(), formats::all().clone(), clock).with_run(run.clone());
    ownership::release_abandoned(context, &sessions, &target.stack).await;
    let begun = begin(context, &target, sessions.clone()).await;
    let (server, variables, was_used) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            file.map(RunFile::remove).unwrap_or_default();
            return Err(target.give_up(error).await);
        }
    };
    let ended = child::run(&args.command, &variables, file.as_ref()).await;
    // A write that was accepted is recorded before the lock is released.
    server.shut_down().await;
    release(context, &sessions, &target.stack, &run).await;
    file.map(RunFile::remove).unwrap_or_default();
    let code = match ended {
        Ok(code) => code,
        Err(error) => return Err(target.give_up(error).await),
    };
    let mut warnings = Vec::new();
    if !was_used.load(Ordering::Relaxed) && needs_state(&args.command) {
        warnings.push(format!(
            "the command made no request to stack {}: add `terraform {{ backend \"http\" {{}} }}` to the configuration",
            target.stack.name().short()
        ));
    }
    Ok(Report::empty()
        .warned(warnings)
        .with_code(ExitCode::Command(code)))
}

/// Prints what was created on stderr before the command starts, because its output follows.
fn announce(context: &Context, target: &Target) {
    context.output.announce(|page| {
        if target.created_store {
            page.line(format_args!("created store {}", target.url));
        }
        if target.created_stack {
            page.line(format_args!("created stack {}", target.stack.name().short()));
        }
    });
    for warning in &target.warnings {
        let text = context.settings.invocation().apply(warning);
        line_to_stderr(&format!("warning: {text}"));
    }
}

/// Starts the private server. Returns the variables of the command, and whether a request reached the server.
async fn begin(
    context: &Context,
    target: &Target,
    sessions: Sessions,
) -> Result<(ServerHandle, Variables, Arc<AtomicBool>), CliError> {
    let failed = |source: std::io::Error| CliError::io("private server", &source);
    let mut random = [0; 32];
    context.environment.entropy.fill(&mut random);
    let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = Token::new(USER, &password).map_err(|reason| CliError::failed("private server", reason))?;
    let clock = Arc::clone(&context.environment.clock);
    let was_used = Arc::new(AtomicBool::new(false));
    let used = Arc::clone(&was_used);
    let audit = AuditLog::new(move |record| {
        used.store(true, Ordering::Relaxed);
        report_refusal(record);
    });
    let server = Server::new(sessions, Access::new(vec![token]), audit, clock);
    let server = server.start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
    let server = server.map_err(failed)?;
    let variables = Variables::new(server.address(), target.stack.name(), USER, password);
    Ok((server, variables, was_used))
}

/// Prints the reason of a refusal: Terraform shows only the HTTP status.
fn report_refusal(record: &AuditRecord) {
    if let Some(reason) = &record.reason {
        line_to_stderr(&format!(
            "statectl: refused {} with status {}: {reason}",
            record.method, record.status
        ));
    }
}

/// Releases the lock that the command left, for example because it was killed.
async fn release(context: &Context, sessions: &Sessions, stack: &Stack, run: &RunId) {
    match ownership::release(sessions, stack, run).await {
        Ok(None) => {}
        Ok(Some(lock)) => context.output.announce(|page| {
            page.line(format_args!(
                "statectl: released the lock of `{}`, which the command left",
                lock.holder.operation
            ));
        }),
        Err(error) => line_to_stderr(&format!(
            "warning: the lock of the command could not be released: {error}; release it with `statectl run -- true`"
        )),
    }
}

/// Whether the command is a Terraform command that reads or writes the state.
fn needs_state(command: &[OsString]) -> bool {
    let [program, arguments @ ..] = command else {
        return false;
    };
    let program = Path::new(program).file_name().and_then(|name| name.to_str());
    let is_client = program.is_some_and(|name| ["terraform", "tofu", "terragrunt"].contains(&name));
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    let name = words.find(|word| !word.starts_with('-'));
    is_client && name.is_some_and(|name| STATE_COMMANDS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::needs_state;
    use std::ffi::OsString;

    #[test]
    fn only_commands_with_a_state_need_a_backend() {
        let needs = |words: &str| needs_state(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(needs("terraform apply"));
        assert!(needs("/usr/bin/tofu -chdir=a plan"));
        for words in ["terraform fmt", "terraform", "terraform -version", "make apply"] {
            assert!(!needs(words), "{words}");
        }
    }
}

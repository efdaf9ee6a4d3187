//! The command `serve`: serves the stacks of a store to Terraform and OpenTofu.

mod tokens;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::formats;
use crate::identities::NewStack;
use crate::output::{Report, line_to_stderr, stream_line};
use crate::signals::{ignores_hangup, next};
use state_server::session::ForceUnlock;
use state_server::{Access, AuditLog, Server, Sessions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Serve the stacks of a store to Terraform
///
/// Answers the requests of Terraform's and OpenTofu's `http` backend at `/v1/state/PROJECT/STACK`, until SIGINT or SIGTERM.
/// Then the server finishes the accepted requests. Stacks that don't exist are created.
///
/// Listens on loopback addresses only, because connections are not encrypted: put a proxy with TLS in front of it to serve other
/// machines.
///
/// Each line of the token file is `USER TOKEN`. Only its owner may read the file. Prints one JSON document per request on stdout,
/// without secrets.
///
/// A lock is held until Terraform releases it. If Terraform was killed, release its lock with `terraform force-unlock ID` or with
/// `statectl lock break --id ID`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Loopback address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8480")]
    listen: SocketAddr,
    /// File with the users and their tokens
    #[arg(long, value_name = "FILE")]
    tokens: PathBuf,
    /// Refuse `terraform force-unlock`, which sends no lock id
    #[arg(long)]
    refuse_force_unlock: bool,
    #[command(flatten)]
    sealing: NewStack,
}

/// Runs the command `serve` until a signal ends it.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let access = Access::new(tokens::read(&args.tokens)?);
    let stacks = context.store.open().await?;
    let (policy, warnings) = args.sealing.policy.prepare(&context.store.keys)?;
    // `prepare` may have created the first identity.
    let stacks = context.store.with_keys(stacks);
    let rule = match args.refuse_force_unlock {
        true => ForceUnlock::Refused,
        false => ForceUnlock::Allowed,
    };
    let clock = Arc::clone(&context.environment.clock);
    let sessions = Sessions::new(stacks, formats::all().clone(), Arc::clone(&clock))
        .with_new_stacks(policy)
        .with_force_unlock(rule);
    let audit = AuditLog::new(|record| {
        if stream_line("request", record).is_err() {
            line_to_stderr("warning: an audit record could not be printed");
        }
    });
    let failed = |source: std::io::Error| CliError::io(args.listen.to_string(), &source);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hung_up = match ignores_hangup() {
        true => None,
        false => Some(signal(SignalKind::hangup()).map_err(failed)?),
    };
    let server = Server::new(sessions, access, audit, clock)
        .start(args.listen)
        .await;
    let server = server.map_err(|source| {
        failed(source).with_hint("listen on a free port of 127.0.0.1, for example `--listen 127.0.0.1:0`")
    })?;
    for warning in &warnings {
        line_to_stderr(&format!("warning: {warning}"));
    }
    line_to_stderr(&format!("listening on http://{}", server.address()));
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = next(&mut hung_up) => {}
    }
    line_to_stderr("finishing the accepted requests");
    server.shut_down().await;
    Ok(Report::empty())
}

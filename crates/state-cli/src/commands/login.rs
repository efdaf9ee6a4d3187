//! The commands `login`, `logout` and `whoami`: the store saved in the user's configuration, and the identity used for
//! locks.

use crate::context::{CommandResult, Context};
use crate::settings;
use crate::settings::file::{self, Remembered};
use crate::store;
use serde::Serialize;
use state_core::backend::Opening;
use state_manager::Actor;

/// Save a store as your default
///
/// Writes the store's URL to your own configuration file, without secrets, so that `--backend` isn't needed.
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// URL of an existing, reachable store
    #[arg(value_name = "URL")]
    url: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LoginReport {
    backend: String,
    file: String,
}

/// Runs the command `login` and returns its report.
pub(crate) async fn login(context: &Context, args: &LoginArgs) -> CommandResult {
    let given = file::absolute_here(&args.url)?;
    let stacks = context.store.connect(&given, Opening::Existing).await;
    let stacks = stacks.map_err(|error| store::missing_store(error, &given))?;
    stacks.names().await?;
    let backend = settings::shown(&given);
    let file = file::remember(Some(&backend))?;
    let mut warnings = Vec::new();
    if backend != given {
        warnings.push(
            "secrets in the URL are not saved: pass them in the environment variables of that store"
                .to_owned(),
        );
    }
    let done = LoginReport {
        backend,
        file: file.path,
    };
    context.report("login", &done, warnings, |page| {
        page.line(format_args!("using store {} by default", done.backend));
        page.line(format_args!("saved in {}", done.file));
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LogoutReport {
    /// The store that was saved before; none if no store was saved.
    backend: Option<String>,
    changed: bool,
}

/// Runs `logout`: removes the saved store, and the credentials that its backend stored for the user.
pub(crate) async fn logout(context: &Context) -> CommandResult {
    let Remembered { backend, .. } = file::remembered()?;
    let mut warnings = Vec::new();
    if let Some(url) = &backend {
        // A store that can't be opened any more has no stored credentials to remove, so this error is ignored.
        if let Ok(stacks) = context.store.reach(url, Opening::Existing)
            && let Err(error) = stacks.logout().await
        {
            warnings.push(format!("the credentials of the store were not removed: {error}"));
        }
        file::remember(None)?;
    }
    let done = LogoutReport {
        changed: backend.is_some(),
        backend,
    };
    context.report("logout", &done, warnings, |page| match &done.backend {
        Some(backend) => page.line(format_args!("removed the default store {backend}")),
        None => page.line("no default store is saved"),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WhoamiReport {
    who: String,
    host: String,
    /// The store that a command in this folder would use.
    backend: String,
}

/// Runs the command `whoami` and returns its report.
pub(crate) fn whoami(context: &Context) -> CommandResult {
    let Actor { who, host, .. } = context.environment.actor.clone();
    let done = WhoamiReport {
        who,
        host,
        backend: settings::shown(&context.store.location()?.url),
    };
    context.report("whoami", &done, Vec::new(), |page| {
        page.line(format_args!("{}@{}", done.who, done.host));
        page.field("store", &done.backend);
    })
}

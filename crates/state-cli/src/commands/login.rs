//! `login`, `logout`, `whoami`: which store is remembered, and who works on it.

use crate::context::{CommandResult, Context};
use crate::settings;
use crate::settings::file::{self, Remembered};
use crate::store;
use serde::Serialize;
use state_core::backend::Opening;
use state_manager::Actor;

/// Remember a store, so that `--backend` isn't needed: in your own settings, without its secrets.
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// The store. It must be there and answer.
    #[arg(value_name = "URL")]
    url: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedIn {
    backend: String,
    file: String,
}

/// Remembers a store.
pub(crate) async fn login(context: &Context, args: &LoginArgs) -> CommandResult {
    let given = file::absolute_here(&args.url)?;
    let stacks = context.store.connect(&given, Opening::Existing).await;
    let stacks = stacks.map_err(|error| store::not_there(error, &given))?;
    stacks.names().await?;
    let backend = settings::shown(&given);
    let file = file::remember(Some(&backend))?;
    let mut warnings = Vec::new();
    if backend != given {
        warnings.push(
            "what is secret in the URL isn't remembered: give it by the environment variables of that store"
                .to_owned(),
        );
    }
    let done = LoggedIn {
        backend,
        file: file.path,
    };
    context.report("login", &done, warnings, |page| {
        page.line(format_args!("{} is used from now on", done.backend));
        page.line(format_args!("remembered in {}", done.file));
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedOut {
    /// The store that was remembered.
    backend: Option<String>,
    changed: bool,
}

/// Forgets the store that was remembered, and the credentials that it keeps for its user.
pub(crate) async fn logout(context: &Context) -> CommandResult {
    let Remembered { backend, .. } = file::remembered()?;
    let mut warnings = Vec::new();
    if let Some(url) = &backend {
        // One that can't be opened any more keeps nothing here.
        if let Ok(stacks) = context.store.reach(url, Opening::Existing)
            && let Err(error) = stacks.logout().await
        {
            warnings.push(format!("the store could not forget its credentials: {error}"));
        }
        file::remember(None)?;
    }
    let done = LoggedOut {
        changed: backend.is_some(),
        backend,
    };
    context.report("logout", &done, warnings, |page| match &done.backend {
        Some(backend) => page.line(format_args!("{backend} is forgotten")),
        None => page.line("nothing was remembered"),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Who {
    who: String,
    host: String,
    /// The store that a command here would use.
    backend: String,
}

/// Says who a lock would name, and of which store.
pub(crate) fn whoami(context: &Context) -> CommandResult {
    let Actor { who, host, .. } = context.environment.actor.clone();
    let done = Who {
        who,
        host,
        backend: settings::shown(&context.store.place()?.url),
    };
    context.report("whoami", &done, Vec::new(), |page| {
        page.line(format_args!("{}@{}", done.who, done.host));
        page.field("store", &done.backend);
    })
}

//! `init`: make a store.

use crate::context::{CommandResult, Context};
use crate::identities::NewStack;
use crate::settings;
use crate::store::FOLDER;
use serde::Serialize;

/// Make a store: `.state` in this folder, or where `--backend` says. One that is there already stays as it is. With a
/// policy that seals, makes an identity for you too, if you have none.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sealing: NewStack,
}

#[derive(Serialize)]
struct Made {
    backend: String,
    created: bool,
}

/// Makes the store.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let url = match &context.settings.backend {
        Some(backend) => settings::url_of(backend),
        None => format!("file://{FOLDER}"),
    };
    let (_, created) = context.store.connect_or_make(&url).await?;
    let (_, warnings) = args.sealing.policy.prepare(&context.store.keys)?;
    let made = Made {
        backend: settings::shown(&url),
        created,
    };
    context.report("init", &made, warnings, |page| {
        if created {
            page.line(format_args!("made the store {}", made.backend));
        } else {
            page.line(format_args!("the store {} is there already", made.backend));
        }
    })
}

//! The command `init`: creates a store.

use crate::context::{CommandResult, Context};
use crate::identities::NewStack;
use crate::settings;
use crate::settings::file::here;
use crate::store::{self, FOLDER, StoreLocation};
use serde::Serialize;

/// Create a store
///
/// Creates `.state` in this folder, or the store named by `--backend`. An existing store is left unchanged. If you have
/// no identity yet and the policy encrypts values, an identity is created too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sealing: NewStack,
}

#[derive(Serialize)]
struct InitReport {
    backend: String,
    created: bool,
}

/// Runs the command `init` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let url = match context.store.named()? {
        Some(url) => url,
        None => {
            let folder = here()?.join(FOLDER);
            if folder.exists() {
                store::require_own_store(&folder)?;
            }
            format!("file://{FOLDER}")
        }
    };
    // A store is made here on purpose, also below the folder of another one.
    let place = StoreLocation { url, found: None };
    let (_, created) = context.store.connect_or_make(&place).await?;
    let (_, warnings) = args.sealing.policy.prepare(&context.store.keys)?;
    let report = InitReport {
        backend: settings::shown(&place.url),
        created,
    };
    context.report("init", &report, warnings, |page| {
        if created {
            page.line(format_args!("created store {}", report.backend));
        } else {
            page.line(format_args!("store {} already exists", report.backend));
        }
    })
}

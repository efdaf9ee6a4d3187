//! `init`: make a store.

use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use crate::store::{self, FOLDER};
use serde::Serialize;
use state_core::ErrorKind;
use state_manager::Stacks;

/// Make a store: `.state` in this folder, or where `--backend` says. One that is there already stays as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Made {
    backend: String,
    created: bool,
}

/// Makes the store.
pub(crate) fn run(context: &Context, _args: &Args) -> Result<Report, CliError> {
    let url = match &context.global.backend {
        Some(backend) => store::url_of(backend),
        None => format!("file://{FOLDER}"),
    };
    let environment = || context.environment.clone();
    let created = match Stacks::open(&url, environment()) {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Stacks::create(&url, environment())?;
            true
        }
        Err(error) => return Err(error.into()),
    };
    let made = Made {
        backend: url,
        created,
    };
    Report::new(context, "init", &made, Vec::new(), |page| {
        if created {
            page.line(format_args!("made the store {}", made.backend));
        } else {
            page.line(format_args!("the store {} is there already", made.backend));
        }
    })
}

//! `doctor`: does the store keep the promises that everything here rests on?

use crate::context::{CommandResult, Context};
use crate::exit::ExitCode;
use crate::render::{Page, Style};
use crate::settings;
use crate::store;
use serde::Serialize;
use state_core::backend::{Finding, Opening, StoreCheck, Verdict};

/// Try on the live store whether it keeps the promises that state needs: creation and replacement with exactly one
/// winner, reads and lists that see what was written. Works in a place of its own and leaves nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store; else the one that `--backend` and the settings name.
    #[arg(value_name = "URL")]
    url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Examined {
    backend: String,
    sound: bool,
    findings: Vec<Finding>,
}

/// Examines.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let url = match &args.url {
        None => context.store.place()?.url,
        Some(url) => settings::url_of(url),
    };
    // It need not be there yet: what is tried is the place.
    let stacks = context
        .store
        .reach(&url, Opening::Existing)
        .map_err(|error| store::not_there(error, &url))?;
    let StoreCheck { findings } = stacks.examine().await?;
    let examined = Examined {
        backend: stacks.url(),
        sound: findings.iter().all(|finding| finding.verdict != Verdict::Broken),
        findings,
    };
    let report = context.report("doctor", &examined, Vec::new(), |page| {
        page.line(format_args!("examined the store {}", examined.backend));
        for finding in &examined.findings {
            print(page, finding);
        }
        if examined.sound {
            page.styled(Style::Good, "state is safe there");
        } else {
            page.styled(Style::Bad, "state is not safe there: use another store");
        }
        page.space("\n");
    })?;
    Ok(report.with_code_if(!examined.sound, ExitCode::Unsupported))
}

fn print(page: &mut Page, finding: &Finding) {
    let (style, word) = match finding.verdict {
        Verdict::Holds => (Style::Good, "ok"),
        Verdict::Broken => (Style::Bad, "FAILS"),
        _ => (Style::Warn, "note"),
    };
    page.styled(style, &format!("  {word:<6}"));
    page.line(format_args!("{:<18}{}", finding.check, finding.found));
    if let Some(meaning) = &finding.meaning {
        page.line(format_args!("        {:<18}{meaning}", ""));
    }
}

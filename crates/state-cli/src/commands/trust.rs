//! `trust`: what this client remembers of a stack, and taking for true what is there now.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::settings;
use crate::store;
use serde::Serialize;
use state_core::{KeyId, Lineage, Serial, StackName};
use state_manager::{Authenticity, KnownStacks, StackPin, Stacks};

/// Show which key and how much of the stack was seen before, beside what is there now. A stack that is sealed with a key
/// that nobody vouched for, that went back in time, or that took another one's name is refused until it is accepted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Forget what was seen, and take for true what is there now. Ask those who work with the stack first.
    #[arg(long, conflicts_with = "key")]
    accept: bool,
    /// Take only a stack with this data key for true: before first contact, as somebody told it.
    #[arg(long, value_name = "KEY-ID")]
    key: Option<KeyId>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Trusted {
    stack: String,
    lineage: Lineage,
    /// What is there now.
    found: Found,
    /// What was seen last; none before first contact.
    seen: Option<StackPin>,
    /// Why it isn't taken for true; none if it is.
    distrusted: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Found {
    key: Option<KeyId>,
    serial: Option<Serial>,
    /// Whether head and journal were made with that key, as far as an identity at hand tells.
    authentic: bool,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let place = context.store.place()?;
    let stacks = context.store.open().await?;
    let Some(name) = context.store.choose(&stacks).await? else {
        let object = format!("store {}", settings::shown(&place.url));
        return Err(CliError::not_found(object, "it has no stack yet"));
    };
    let object = format!("stack {}", name.short());
    let Some(known_stacks) = context.store.known_stacks(&stacks.url(), &place.url) else {
        let message = "there is no home folder to remember anything in";
        return Err(CliError::failed(object, message).with_hint("set XDG_STATE_HOME to a folder of yours"));
    };
    let lineage = lineage_of(&stacks, &name).await?;
    if let Some(key) = args.key {
        pin(&stacks, &*known_stacks, &name, lineage, key).await?;
    }
    if args.accept {
        context
            .prompt
            .confirm(&object, &format!("Take for true what {object} holds now?"))?;
        stacks.trust(&name).await?;
    }
    let trusted = look(&stacks, &*known_stacks, &name, lineage).await?;
    let warnings = trusted.distrusted.clone().into_iter().collect();
    context.report("trust", &trusted, warnings, |page| {
        let key = |key: Option<KeyId>| key.map_or_else(|| "no key".to_owned(), |key| format!("key {key}"));
        page.line(format_args!("{object}, lineage {lineage}"));
        match &trusted.seen {
            None => page.line("seen:  never"),
            Some(seen) => page.line(format_args!("seen:  {}, serial {}", key(seen.key), seen.serial)),
        }
        let found = &trusted.found;
        let serial = found
            .serial
            .map_or_else(String::new, |serial| format!(", serial {serial}"));
        let unchecked = if found.key.is_some() && !found.authentic {
            ", unchecked"
        } else {
            ""
        };
        page.line(format_args!("found: {}{serial}{unchecked}", key(found.key)));
    })
}

/// The stack behind the name, whether it is trusted or not.
async fn lineage_of(stacks: &Stacks, name: &StackName) -> Result<Lineage, CliError> {
    match stacks.bound_head(name).await? {
        Some(head) => Ok(head.lineage),
        None => Err(store::no_stack(stacks, name).await),
    }
}

async fn pin(
    stacks: &Stacks,
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
    key: KeyId,
) -> Result<(), CliError> {
    let seen = known_stacks.seen(lineage).await?;
    if let Some(known) = seen.and_then(|seen| seen.key).filter(|known| *known != key) {
        let message = format!("it was seen with key {known} before; nothing was changed");
        return Err(CliError::conflict(format!("stack {}", name.short()), &message)
            .with_hint("forget that with `statectl trust --accept` first"));
    }
    known_stacks.remember(lineage, Some(&StackPin::pinned(key))).await;
    stacks.get(name).await?;
    Ok(())
}

async fn look(
    stacks: &Stacks,
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
) -> Result<Trusted, CliError> {
    let seen = known_stacks.seen(lineage).await?;
    let view = match stacks.get(name).await {
        Ok(Some(stack)) => stack.tip().await,
        Ok(None) => return Err(store::no_stack(stacks, name).await),
        Err(error) => Err(error),
    };
    let (found, distrusted) = match view {
        Ok(view) => {
            let found = Found {
                key: view.head.key_id,
                serial: Some(view.state.serial()),
                authentic: view.authenticity == Authenticity::Checked,
            };
            (found, view.regression)
        }
        Err(error @ state_core::Error::Distrusted { .. }) => {
            let head = stacks.bound_head(name).await?;
            let found = Found {
                key: head.and_then(|head| head.key_id),
                serial: None,
                authentic: false,
            };
            (found, Some(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Trusted {
        stack: name.to_string(),
        lineage,
        found,
        seen,
        distrusted,
    })
}

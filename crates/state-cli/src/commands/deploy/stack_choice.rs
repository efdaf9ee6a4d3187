//! Chooses the stack of a program, and refuses to change a stack that belongs to another program or tool.
//!
//! A program deletes all resources of its stack that it doesn't declare. A stack is therefore never chosen only because
//! it is the only one in the store.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::settings::quoted;
use crate::store;
use crate::target::DEFAULT_STACK;
use state_core::{StackName, StackOwner, State, UpdateKind};
use state_manager::{Lookup, RevisionKind, Stack, Stacks, View};

/// The name under which a program is recorded in its stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramName {
    /// The member `name` of the program; empty if the program has none.
    pub(super) title: String,
}

impl ProgramName {
    pub(super) fn new(title: Option<&str>) -> Self {
        Self {
            title: title.unwrap_or_default().to_owned(),
        }
    }

    /// The name of the program's own stack: the program's name, or `default` if that isn't the name of a stack.
    pub(super) fn stack(&self) -> Result<StackName, CliError> {
        match self.title.parse() {
            Ok(name) => Ok(name),
            Err(_) => Ok(StackName::new(StackName::DEFAULT_PROJECT, DEFAULT_STACK)?),
        }
    }

    fn describe(&self) -> String {
        described(&self.title)
    }
}

fn described(title: &str) -> String {
    match title {
        "" => "a program without a name".to_owned(),
        title => format!("program `{}`", title.escape_debug()),
    }
}

/// The stack that a deployment works on.
pub(super) enum Choice {
    Existing(Box<Stack>),
    /// The name of the stack to create.
    Missing(StackName),
}

/// The stack of a program: the one that the user named, the one with the program's name, or the only stack of the store
/// if this program made it. The stack may be missing if the store has no stacks, or if the user named it.
///
/// # Errors
/// [`ExitCode::NotFound`] if the store has only other stacks.
pub(super) async fn choose(
    context: &Context,
    stacks: &Stacks,
    program: &ProgramName,
    adopt: bool,
) -> Result<Choice, CliError> {
    let named = context.settings.stack.clone();
    let is_named = named.is_some();
    let own = named.map_or_else(|| program.stack(), Ok)?;
    // Asked by name and not by the list: a name that this client knows must not count as free because the store hides it.
    if let Lookup::Found(stack) = stacks.find_to_lock(Some(&own)).await? {
        context.store.log_use(&format!("stack {}", stack.name()));
        return Ok(Choice::Existing(Box::new(stack)));
    }
    if is_named {
        return Ok(Choice::Missing(own));
    }
    let mut names = stacks.names().await?;
    names.sort();
    // Another process may have created it since it was looked for.
    if names.iter().any(|name| name.folded() == own.folded())
        && let Lookup::Found(stack) = stacks.find_to_lock(Some(&own)).await?
    {
        return Ok(Choice::Existing(Box::new(stack)));
    }
    match &*names {
        [] => Ok(Choice::Missing(own)),
        [only] => match made_by(stacks, only, program, adopt).await? {
            Some(stack) => Ok(Choice::Existing(Box::new(stack))),
            None => Err(no_own_stack(&own, &names)),
        },
        others => Err(no_own_stack(&own, others)),
    }
}

/// The stack with this name, if the program made it. With `adopt`, the name of the program in an imported state suffices.
async fn made_by(
    stacks: &Stacks,
    name: &StackName,
    program: &ProgramName,
    adopt: bool,
) -> Result<Option<Stack>, CliError> {
    let Lookup::Found(view) = stacks.view(Some(name)).await? else {
        return Ok(None);
    };
    // A program without a name can't be distinguished from others, so only a name proves that the program made the stack.
    let is_own =
        !program.title.is_empty() && view.state.owner() == StackOwner::Program(program.title.clone());
    Ok((is_own && (adopt || is_recorded(&view, program).await?)).then(|| view.stack()))
}

/// Whether an update of the program made the state. An imported state names the program that its author chose.
async fn is_recorded(view: &View, program: &ProgramName) -> Result<bool, CliError> {
    let mut revisions = view.revisions();
    while let Some(revision) = revisions.next().await? {
        let RevisionKind::Update(info) = revision.kind else {
            continue;
        };
        match info.kind {
            UpdateKind::Import => return Ok(false),
            UpdateKind::Update if info.program.as_ref() == Some(&program.title) => return Ok(true),
            _ => {}
        }
    }
    // A first update that crashed is on no revision yet. After a collection, the import may be missing.
    Ok(revisions.collected_before().is_none())
}

fn no_own_stack(own: &StackName, others: &[StackName]) -> CliError {
    let listed: Vec<_> = others.iter().map(StackName::short).collect();
    let message = format!(
        "the program's stack was not found; the store has other stacks: {}",
        listed.join(", ")
    );
    let hint = format!(
        "create it with `statectl stack new {}`, or name another one, for example `--stack {}`, with `--adopt` if another \
         program or tool made it",
        quoted(&own.short()),
        quoted(&listed[0])
    );
    CliError::not_found(format!("stack {}", own.short()), &message).with_hint(hint)
}

/// The stack for `refresh` and `destroy`: the one that the user named, or the one of the program at hand. Without a
/// program, the only stack.
///
/// # Errors
/// As [`choose`], for a program whose stack isn't in the store.
pub(super) async fn existing(
    context: &Context,
    stacks: &Stacks,
    program: Option<&ProgramName>,
    adopt: bool,
) -> Result<Stack, CliError> {
    if let Some(program) = program {
        return match choose(context, stacks, program, adopt).await? {
            Choice::Existing(stack) => Ok(*stack),
            Choice::Missing(name) => Err(store::no_stack(stacks, &name).await),
        };
    }
    context.store.chosen(stacks).await
}

/// Refuses to change a stack that belongs to another program or tool.
///
/// # Errors
/// [`ExitCode::Refused`].
pub(super) fn require_owner(
    name: &StackName,
    state: &State,
    program: Option<&ProgramName>,
) -> Result<(), CliError> {
    let owner = state.owner();
    let (reason, subject) = match (&owner, program) {
        (StackOwner::Tool(tool), _) => (
            format!("it holds a state of {}", tool.escape_debug()),
            "another tool",
        ),
        (StackOwner::Program(of), Some(program)) if !owner.accepts(&program.title) => {
            let reason = format!("it belongs to {}, not to {}", described(of), program.describe());
            (reason, "another program")
        }
        _ => return Ok(()),
    };
    let object = format!("stack {}", name.short());
    let message = format!("refused to change the resources of {subject}: {reason}");
    Err(CliError::new(ExitCode::Refused, object, &message)
        .with_hint("name the right stack with `--stack NAME`, or take this one over with `--adopt`"))
}

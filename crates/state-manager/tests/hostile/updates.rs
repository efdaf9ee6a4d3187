//! The updates that commands and the scenario make, each in a session of its own.

use crate::scenario::{CANARY, entry};
use state_core::edits::{Operation, StateEditor};
use state_core::mutation::StackOutputs;
use state_core::update::UpdateKind;
use state_core::{Address, EntryKey, Error, Json, LogLevel, LogLine, Result, Timestamp, UpdateResult};
use state_manager::{Intent, Session, Stack, Update, UpdateRequest};

/// Creates the resource `tag` in an update of its own.
pub(crate) async fn update(session: &Session, tag: &str) -> Result<()> {
    let request = UpdateRequest::new(UpdateKind::Update);
    let update = session.start_update(request).await?;
    let entry = entry(tag)?;
    let begun = update.begin(Intent::create(entry.clone())).await?;
    let violations = begun.succeed(Some(entry)).await?;
    if !violations.is_empty() {
        return Err(Error::integrity("the entry", violations));
    }
    log(&update, Some(tag.parse()?), tag);
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Deletes every resource of the stack in one update.
pub(crate) async fn destroy(session: &Session) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Destroy))
        .await?;
    let addresses: Vec<Address> = session
        .state()
        .entries()
        .map(|entry| entry.address.clone())
        .collect();
    for address in addresses {
        let target = EntryKey {
            address,
            deposed: None,
        };
        update.begin(Intent::delete(target)).await?.succeed(None).await?;
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Removes the resource `built-1` from the state by hand.
pub(crate) async fn edit(session: &Session) -> Result<()> {
    let state = session.state();
    let mut editor = StateEditor::on(&state);
    let removal = Operation::Rm {
        addresses: vec!["built-1".parse()?],
        deposed: None,
        cascade: false,
        force: true,
    };
    editor
        .perform(&removal)
        .map_err(|refusal| Error::invalid("the edit", format!("{refusal:?}")))?;
    let request = UpdateRequest::new(UpdateKind::Edit);
    session
        .edit(request, &state, editor.into_changes())
        .await
        .map(drop)
}

/// Imports the current snapshot again.
pub(crate) async fn import_again(stack: &Stack, session: &Session) -> Result<()> {
    let snapshot = stack.current().await?;
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, snapshot, None).await.map(drop)
}

/// Makes a revision that sets a stack output.
pub(crate) async fn publish(session: &Session) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let mut outputs = StackOutputs::default();
    let url = Json::parse(r#""https://example.com""#)
        .map_err(|error| Error::invalid("output", error.to_string()))?;
    outputs.values.insert("url".to_owned(), url);
    update.set_outputs(outputs).await?;
    log(&update, None, "outputs");
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Logs two lines, the first of them with a value that must be sealed.
fn log(update: &Update, address: Option<Address>, tag: &str) {
    let line = |level, message| LogLine::new(Timestamp::new("2026-01-01T00:00:00Z"), level, message);
    let first = line(LogLevel::Info, format!("{tag} has the value {CANARY}"));
    update.log(&LogLine { address, ..first });
    update.log(&line(LogLevel::Warning, format!("{tag} is slow")));
}

//! New revisions get the serials of the revisions that a salvage lost: nothing of the lost ones is left in their place.

use super::*;
use state_core::mutation::StackOutputs;
use state_core::{LogLevel, LogLine, Serial};
use state_manager::LogQuery;

/// Makes one revision with this text as its log and as an output.
async fn deploy_text(stack: &Stack, text: &str) -> RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let time = Timestamp::new("2026-01-01T00:00:00Z");
    update.log(&LogLine::new(time, LogLevel::Info, text.to_owned()));
    update.set_outputs(outputs(text)).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

fn outputs(text: &str) -> StackOutputs {
    StackOutputs {
        values: [(
            "text".to_owned(),
            state_core::Json::parse(&format!("{text:?}")).unwrap(),
        )]
        .into(),
        sensitive: Vec::new(),
    }
}

#[tokio::test]
async fn logs_and_outputs_of_lost_revisions_make_room_for_new_ones() {
    let (client, stack) = Client::with_stack(true).await;
    deploy_text(&stack, "first").await;
    let carl = generate_identity();
    let recipients = [carl.recipient().to_owned()];
    stack.add_output_recipients("add", &recipients).await.unwrap();
    let kept = deploy_text(&stack, "kept").await;
    let before = contents(&client.objects).await;
    for text in ["lost", "lost too"] {
        deploy_text(&stack, text).await;
    }
    let all = contents(&client.objects).await;
    let is_lost =
        |key: &&String| is_compaction(key) || (key.contains("/journal/") && !before.contains_key(*key));
    for key in all.keys().filter(is_lost) {
        client.objects.delete(&Path::parse(key).unwrap()).await.unwrap();
    }

    let report = client.salvage().salvage(None).await.unwrap();
    let salvaged = &report.stacks[0];
    assert_eq!((&salvaged.obstacle, &salvaged.restored), (&None, &Some(kept)));
    let of_carl = Stacks::new(client.backend(), Client::environment()).with_keys(keys(8, &carl));
    let read = async || -> (Serial, StackOutputs) {
        let read = of_carl.published_outputs(&shop()).await.unwrap().unwrap();
        (read.serial, read.outputs)
    };
    let revision = salvaged.revision.as_ref().unwrap();
    assert_eq!(read().await, (revision.serial(), outputs("kept")));
    for text in ["new", "newer"] {
        let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
        let latest = deploy_text(&stack, text).await;
        assert_eq!(read().await, (latest.serial(), outputs(text)));
    }
    let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
    let reveal = LogQuery {
        reveal: true,
        ..LogQuery::default()
    };
    let lines = stack.logs(&reveal).await.unwrap();
    let texts: Vec<String> = lines.into_iter().map(|stored| stored.line.message).collect();
    assert_eq!(texts, ["first", "kept", "new", "newer"]);
    assert!(client.works().await);
}

//! Attacks that replace one file of a store by an older version, or by a file of another store.

use super::*;

#[tokio::test]
async fn any_replaced_file_is_detected_or_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let anna = generate_identity();
    let (root, foreign) = (folder.path().join("store"), folder.path().join("foreign"));
    make(&root, 1, keys(1, &anna)).await;
    make(&foreign, 2, strangers_keys(&anna)).await;
    let client = Client::of(&root, &anna);
    // A rotation stores the first revision on a page of the history, in both stores.
    for client in [&client, &Client::of(&foreign, &anna)] {
        let stack = client.stack().await.unwrap();
        stack.rekey("rekey", Rekey::default()).await.unwrap();
    }
    let stack = client.stack().await.unwrap();
    let first = client.deploy("b").await;
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let earlier = folder.path().join("earlier");
    copy(&root, &earlier);
    // A rollback stores a snapshot. It also writes later versions of the head and of other files.
    let session = stack.lock("rollback").await.unwrap();
    session.rollback(request, &first).await.unwrap();
    session.close().await.unwrap();
    client.deploy("c").await;
    let honest = folder.path().join("honest");
    copy(&root, &honest);
    let shown = client.stack().await.unwrap().tip().await.unwrap().snapshot();

    let (ours, theirs) = (files_below(&honest), files_below(&foreign));
    let mut tried = 0;
    for file in &ours {
        let kind = |path: &Path| path.parent().and_then(Path::file_name).map(ToOwned::to_owned);
        let same_kind = |other: &&PathBuf| kind(other) == kind(file);
        let older = Some(earlier.join(file)).filter(|path| path.exists());
        let strange = theirs.iter().find(same_kind).map(|path| foreign.join(path));
        for other in older.into_iter().chain(strange) {
            let bytes = std::fs::read(&other).unwrap();
            if bytes == std::fs::read(honest.join(file)).unwrap() {
                continue;
            }
            put_in_place(&root, &honest);
            std::fs::write(root.join(file), bytes).unwrap();
            tried += 1;
            let seen = async {
                let stack = client.stack().await?;
                stack.history().await?;
                stack.verify(true).await?;
                stack.tip().await
            };
            // If the replaced file isn't read, or its content can be read from the journal, the client reports no
            // error. Then it must show the honest state.
            match seen.await {
                Ok(view) if view.regression.is_none() => {
                    assert_eq!(
                        view.snapshot(),
                        shown,
                        "{} from {}",
                        file.display(),
                        other.display()
                    );
                }
                _ => {}
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

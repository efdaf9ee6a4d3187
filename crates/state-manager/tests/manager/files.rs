//! The manager on a store of files: stacks are found again after the store is reopened, and a missing file is an error.

use super::*;
use state_core::ErrorKind;

#[tokio::test]
async fn stack_in_files_is_found_after_reopening_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("store").display());
    let name = "shop/production".parse().unwrap();
    assert!(Stacks::open(&url, environment(1)).is_err());
    let stack = Stacks::create(&url, environment(1))
        .unwrap()
        .new_stack(&name)
        .await
        .unwrap();
    let mut made = Vec::new();
    for round in 0..5 {
        made.push(deploy(&stack, &[&format!("e{round}")]).await);
    }
    let stack = Stacks::open(&url, environment(2))
        .unwrap()
        .get(&name)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stack.list().await.unwrap(), made);
    for (round, revision) in made.iter().enumerate() {
        assert_eq!(stack.get(revision).await.unwrap().entries.len(), round + 1);
    }
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// Removes the file and returns its content.
fn take(path: &std::path::Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    bytes
}

#[tokio::test]
async fn missing_object_is_reported_as_corrupt_not_as_no_current() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let name = "shop/production".parse().unwrap();
    let stacks = Stacks::create(&format!("file://{}", root.display()), environment(1)).unwrap();
    let stack = stacks.new_stack(&name).await.unwrap();
    let place = root.join("stacks").join(stack.lineage().to_string());
    let no_current = stack.current().await.unwrap_err().kind();
    assert_eq!(no_current, ErrorKind::NoCurrent);
    assert_eq!(stack.current_rev().await.unwrap_err().kind(), no_current);

    let session = stack.lock("import").await.unwrap();
    let snapshot = state_core::Snapshot {
        entries: vec![Arc::new(entry("a", &[]))],
        ..state_core::Snapshot::new(
            state_core::FactoryInfo::default(),
            "s",
            state_core::Timestamp::new("2026-01-01T00:00:00Z"),
        )
    };
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, snapshot, None).await.unwrap();
    session.close().await.unwrap();
    stack.current().await.unwrap();

    let snapshots: Vec<_> = std::fs::read_dir(place.join("snapshots")).unwrap().collect();
    assert_eq!(snapshots.len(), 1);
    for path in [snapshots[0].as_ref().unwrap().path(), place.join("head.json")] {
        let bytes = take(&path);
        for error in [
            stack.current().await.unwrap_err(),
            stack.current_rev().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        std::fs::write(&path, bytes).unwrap();
        stack.current().await.unwrap();
    }
    std::fs::remove_dir_all(&place).unwrap();
    let error = stacks.get(&name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// Only the digest in the journal distinguishes the content: the file can be decompressed, has the right length, and is a
/// valid snapshot.
#[tokio::test]
async fn other_snapshot_of_equal_length_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let name = "shop/production".parse().unwrap();
    let stacks = Stacks::create(&format!("file://{}", root.display()), environment(1)).unwrap();
    let stack = stacks.new_stack(&name).await.unwrap();
    deploy(&stack, &["first"]).await;
    let session = stack.lock("import").await.unwrap();
    let content = stack.current().await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Import);
    let imported = session.import(request, content, None).await.unwrap();
    session.close().await.unwrap();

    let place = root
        .join("stacks")
        .join(stack.lineage().to_string())
        .join("snapshots");
    let file = std::fs::read_dir(place).unwrap().next().unwrap().unwrap().path();
    let honest = std::fs::read(&file).unwrap();
    let text = String::from_utf8(zstd::stream::decode_all(&honest[..]).unwrap()).unwrap();
    let changed = text.replace("\"first\"", "\"other\"");
    assert!(changed != text && changed.len() == text.len());
    std::fs::write(&file, zstd::stream::encode_all(changed.as_bytes(), 1).unwrap()).unwrap();
    let path = file.file_name().unwrap().to_string_lossy().into_owned();
    for error in [
        stack.tip().await.map(drop).unwrap_err(),
        stack.current().await.map(drop).unwrap_err(),
        stack.get(&imported).await.map(drop).unwrap_err(),
        stack.lock("deploy").await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(
            error.to_string().contains(path.split('.').next().unwrap()),
            "{error}"
        );
    }
    std::fs::write(&file, honest).unwrap();
    assert_eq!(names(&stack).await, ["first"]);
}

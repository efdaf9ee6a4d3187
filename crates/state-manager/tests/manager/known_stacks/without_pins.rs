//! A client without pins: what it learned of a stack, even by a read that failed, protects its later reads.

use super::super::known_names::kind;
use super::*;

#[tokio::test]
async fn failed_read_teaches_that_a_stack_is_sealed() {
    let (_folder, root, anna) = made().await;
    let name = "shop".parse().unwrap();
    let lineage = Client::of(&root, &anna).stack().await.unwrap().lineage();
    let url = format!("file://{}", root.display());
    let without_memory = |seed| {
        let stacks = Stacks::create(&url, environment(seed)).unwrap();
        stacks.with_keys(keys(7, &anna))
    };
    let (stacks, later) = (without_memory(71), without_memory(72));
    // Their memory is empty so far.
    let (reader, writer) = (Client::of(&root, &anna), Client::of(&root, &anna));
    let journal = root.join("stacks").join(lineage.to_string()).join("journal");
    let honest: Vec<_> = std::fs::read_dir(&journal)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    for (path, _) in &honest {
        std::fs::write(path, "damaged").unwrap();
    }
    // The backend reports the damage before anything of the stack is authenticated.
    for stacks in [&stacks, &reader.stacks()] {
        let refused = stacks.view(Some(&name)).await.map(drop);
        assert_eq!(kind(refused), Err(ErrorKind::Corrupt));
    }
    assert_eq!(kind(writer.write().await), Err(ErrorKind::Corrupt));

    for (path, bytes) in honest {
        std::fs::write(path, bytes).unwrap();
    }
    change_head(&root, lineage, |head| {
        head.key_id = None;
        head.keys = None;
        head.tag = None;
    });
    assert_eq!(
        kind(stacks.view(Some(&name)).await.map(drop)),
        Err(ErrorKind::Distrusted)
    );
    assert_eq!(
        kind(stacks.get(&name).await.map(drop)),
        Err(ErrorKind::Distrusted)
    );
    for client in [reader, writer] {
        let refused = client.stacks().view(Some(&name)).await.map(drop);
        assert_eq!(kind(refused), Err(ErrorKind::Distrusted));
        assert_eq!(kind(client.write().await), Err(ErrorKind::Distrusted));
    }
    // A client that didn't see the sealed stack can't know that it was sealed.
    later.view(Some(&name)).await.unwrap();
}

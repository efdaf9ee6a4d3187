//! The same promises on files.

use super::*;

#[tokio::test]
async fn a_stack_on_files_is_there_when_the_store_is_opened_again() {
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

//! Outputs of a stack in files of which a salvage lost revisions.

use super::*;
use state_manager::Salvage;

#[tokio::test]
async fn salvage_leaves_no_outputs_of_lost_revisions() {
    let shop = Shop::new().await;
    let kept = set_outputs(&shop.stack(3).await, "db://kept").await;
    for (seed, url) in [(4, "db://lost"), (5, "db://lost too")] {
        set_outputs(&shop.stack(seed).await, url).await;
    }
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!(read.outputs, outputs("db://lost too"));
    let stacks = std::fs::read_dir(shop.root().join("stacks")).unwrap().next();
    let journal = stacks.unwrap().unwrap().path().join("journal");
    let mut files: Vec<PathBuf> = std::fs::read_dir(journal)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let (segments, compactions): (Vec<_>, Vec<_>) = files
        .iter()
        .partition(|file| file.extension().is_some_and(|kind| kind == "log"));
    // The last two sessions, whose frames are in no other file then.
    for file in segments.iter().rev().take(2).chain(&compactions) {
        std::fs::remove_file(file).unwrap();
    }

    let salvage = Salvage::of_folder(shop.root(), environment(6)).unwrap();
    let salvage = salvage.with_keys(keys(6, &shop.anna));
    let report = salvage.salvage(None).await.unwrap();
    let salvaged = &report.stacks[0];
    assert_eq!((&salvaged.obstacle, &salvaged.restored), (&None, &Some(kept)));
    let revision = salvaged.revision.clone().unwrap();
    let rolled_back = shop.read(&shop.carl).await.unwrap_err();
    assert_eq!(rolled_back.kind(), ErrorKind::Distrusted, "{rolled_back}");
    let of_carl = shop
        .stacks(9, &shop.carl)
        .with_known_stacks(shop.known_stacks.clone());
    of_carl.trust(&"shop".parse().unwrap(), None).await.unwrap();
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!(
        (read.serial, &read.outputs),
        (revision.serial(), &outputs("db://kept"))
    );
    for (seed, url) in [(7, "db://new"), (8, "db://newer")] {
        let latest = set_outputs(&shop.stack(seed).await, url).await;
        let read = shop.read(&shop.carl).await.unwrap().unwrap();
        assert_eq!((read.serial, &read.outputs), (latest.serial(), &outputs(url)));
    }
}

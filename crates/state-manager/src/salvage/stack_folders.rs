//! The stacks that have a folder in a damaged store, with their last known names.

use crate::salvage::damaged_store::SharedStore;
use crate::salvage::head_template::Client;
use crate::salvage::stack_files::{self, StackFiles};
use crate::salvage::survey::{is_bound, is_no_stack, name_of};
use state_core::{Lineage, Result, StackName};

/// A stack that has a folder in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFolder {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Last known name of the stack; none if it is lost.
    pub name: Option<StackName>,
    /// Whether no name leads to the stack.
    pub orphaned: bool,
}

/// The stacks of the store, by lineage, without removed ones. Reads neither their states nor their objects.
pub(super) async fn folders(client: &Client, store: &SharedStore) -> Result<Vec<StackFolder>> {
    let pointers = store.pointers().await?;
    let lineages = store.stacks().await?;
    let heads = stack_files::read_heads(store, &lineages).await?;
    let mut folders = Vec::new();
    for (lineage, head) in lineages.into_iter().zip(heads) {
        // Most stacks have an intact head and a name: their journals, which may be long, aren't read.
        match head {
            Some(head) if head.removed => continue,
            Some(head) if is_bound(lineage, Some(&head.name), &pointers) => {
                folders.push(StackFolder {
                    lineage,
                    name: Some(head.name),
                    orphaned: false,
                });
                continue;
            }
            _ => {}
        }
        let files = StackFiles::read_journal(store, lineage).await?;
        if is_no_stack(client, &files, &pointers).await? {
            continue;
        }
        let name = name_of(client, &files, &pointers).await?;
        folders.push(StackFolder {
            lineage,
            orphaned: !is_bound(lineage, name.as_ref(), &pointers),
            name,
        });
    }
    for (folder, lineage) in store.unfinished().await? {
        let head = stack_files::read_heads(&store.below(&folder), &[lineage]).await?;
        let name = head.into_iter().flatten().next().map(|head| head.name);
        folders.push(StackFolder {
            lineage,
            orphaned: !is_bound(lineage, name.as_ref(), &pointers),
            name,
        });
    }
    Ok(folders)
}

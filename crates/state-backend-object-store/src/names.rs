//! Name pointers: `names/<project>/<stack>.json`, folded to lower case, swapped one by one.

use crate::layout::{MAX_DOCUMENT, Tree};
use crate::objects::{Created, Found, Objects, Swapped};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use state_core::backend::NamePointer;
use state_core::{Enveloped, Error, Nonce, Result, StackName};

const EXTENSION: &str = ".json";

/// All pointers, sorted by name. Objects that can't be pointers are skipped.
pub(crate) async fn list(objects: &Objects, tree: &Tree) -> Result<Vec<NamePointer>> {
    let listed = objects.list(&tree.names(), None).await?;
    let names: Vec<StackName> = listed
        .iter()
        .filter_map(|listed| name_at(tree, &listed.path))
        .collect();
    let pointers = stream::iter(names).map(|name| async move { read(objects, tree, &name).await });
    let pointers = pointers.buffered(objects.options.concurrency.max(1));
    let pointers: Vec<Option<NamePointer>> = pointers.try_collect().await?;
    let mut pointers: Vec<NamePointer> = pointers.into_iter().flatten().collect();
    pointers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pointers)
}

/// The folded name that an object stands for.
fn name_at(tree: &Tree, path: &Path) -> Option<StackName> {
    let parts: Vec<_> = path.prefix_match(&tree.names())?.collect();
    let [project, file] = &*parts else {
        return None;
    };
    let stack = file.as_ref().strip_suffix(EXTENSION)?;
    let name = StackName::new(project.as_ref(), stack).ok()?;
    (tree.name(&name) == *path).then_some(name)
}

/// One pointer.
pub(crate) async fn read(objects: &Objects, tree: &Tree, name: &StackName) -> Result<Option<NamePointer>> {
    match find(objects, tree, name).await? {
        Some((pointer, _)) => Ok(Some(pointer)),
        None => Ok(None),
    }
}

async fn find(objects: &Objects, tree: &Tree, name: &StackName) -> Result<Option<(NamePointer, Found)>> {
    let path = tree.name(name);
    match objects.read(&path, MAX_DOCUMENT).await? {
        Some(found) => Ok(Some((parse(objects, &path, name, &found)?, found))),
        None => Ok(None),
    }
}

fn parse(objects: &Objects, path: &Path, name: &StackName, found: &Found) -> Result<NamePointer> {
    let object = objects.shown(path);
    let pointer = NamePointer::decode(&object, &found.bytes)?;
    if pointer.name.folded() == name.folded() {
        return Ok(pointer);
    }
    let reason = format!("it is the pointer of another name, {}", pointer.name);
    Err(Error::corrupt(object, 0, reason))
}

/// Replaces a pointer if its nonce is the expected one.
pub(crate) async fn swap(
    objects: &Objects,
    tree: &Tree,
    name: &StackName,
    expected: Option<Nonce>,
    pointer: &NamePointer,
) -> Result<()> {
    if pointer.name.folded() != name.folded() {
        let reason = format!("the pointer is one of {}", pointer.name);
        return Err(Error::invalid(format!("stack name {name}"), reason));
    }
    let path = tree.name(name);
    let there = find(objects, tree, name).await?;
    // An earlier try may have taken effect although its answer was lost; only it has this nonce.
    if there.as_ref().is_some_and(|(there, _)| there == pointer) {
        return Ok(());
    }
    if there.as_ref().map(|(there, _)| there.nonce) != expected {
        return Err(changed(objects, &path));
    }
    let bytes = pointer.encode().into();
    match there {
        None => match objects.create(&path, &bytes).await? {
            Created::Ours(_) => Ok(()),
            Created::Taken(_) => Err(changed(objects, &path)),
        },
        Some((_, found)) => match objects.swap(&path, &bytes, &found).await? {
            Swapped::Ours(_) => Ok(()),
            Swapped::Changed { certain: true, .. } => Err(changed(objects, &path)),
            Swapped::Changed { .. } => Err(Error::Indeterminate {
                object: objects.shown(&path),
                mutations: Vec::new(),
                source: "another pointer stands there; ours may have stood there in between".into(),
            }),
        },
    }
}

fn changed(objects: &Objects, path: &Path) -> Error {
    let reason = "its pointer isn't the one that was read before: somebody else changed it";
    Error::conflict(objects.shown(path), reason)
}

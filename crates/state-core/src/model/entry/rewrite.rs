//! Changes every reference of an entry at once: what `references` reads, this writes.

use super::{Entry, Provider, ReferenceField};
use crate::address::{Address, Dependency};

impl Entry {
    /// A copy in which each reference names what `to` says, or is gone where it says none; none if nothing changes.
    ///
    /// Where two items of a list become one, the list names it once. A property whose last dependency goes, goes too. A
    /// parent, provider, deleted-with or replace-with always names an entry: a group there leaves it as it is.
    pub fn with_references(
        &self,
        mut to: impl FnMut(ReferenceField, &Dependency) -> Option<Dependency>,
    ) -> Option<Self> {
        let is_same = self
            .references()
            .all(|reference| to(reference.field, &reference.to).as_ref() == Some(&reference.to));
        if is_same {
            return None;
        }
        let mut changed = self.clone();
        let mut one = |field, address: Address| match to(field, &Dependency::Entry(address.clone())) {
            Some(Dependency::Entry(other)) => Some(other),
            Some(Dependency::Group(_)) => Some(address),
            None => None,
        };
        changed.parent = changed.parent.and_then(|at| one(ReferenceField::Parent, at));
        let provider = changed
            .provider
            .into_inner()
            .and_then(|Provider { address, id }| {
                let address = one(ReferenceField::Provider, address)?;
                Some(Provider { address, id })
            });
        changed.provider = provider.into();
        let with = changed.deleted_with.into_inner();
        changed.deleted_with = with.and_then(|at| one(ReferenceField::DeletedWith, at)).into();
        let replace_with = renamed(&self.replace_with, |at| {
            one(ReferenceField::ReplaceWith, at.clone())
        });
        changed.replace_with = replace_with.into();
        let mut many = |field, list: &[Dependency]| renamed(list, |dependency| to(field, dependency));
        changed.depends_on = many(ReferenceField::DependsOn, &self.depends_on);
        for (property, list) in &self.property_dependencies {
            let left = many(ReferenceField::PropertyDependencies, list);
            if left.is_empty() && !list.is_empty() {
                changed.property_dependencies.remove(property);
            } else {
                changed.property_dependencies.insert(property.clone(), left);
            }
        }
        Some(changed)
    }
}

/// The list with its items renamed. What has another name now goes where the list has that name already.
fn renamed<T: PartialEq>(list: &[T], mut to: impl FnMut(&T) -> Option<T>) -> Vec<T> {
    let mut new = Vec::with_capacity(list.len());
    for item in list {
        match to(item) {
            Some(other) if other == *item || !(list.contains(&other) || new.contains(&other)) => {
                new.push(other);
            }
            _ => {}
        }
    }
    new
}

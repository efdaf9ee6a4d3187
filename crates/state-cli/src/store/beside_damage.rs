//! The stacks of a store whose list of names is refused, because one of the stacks or names is damaged.

use super::Opener;
use crate::error::CliError;
use state_core::{Error, ErrorKind, StackName};
use state_manager::{StackFolder, Stacks};

/// The stacks beside damaged ones.
#[derive(Debug)]
pub(crate) struct BesideDamage {
    /// The names that lead to the files of a stack. Some of these stacks may be damaged.
    pub(crate) names: Vec<StackName>,
    /// The last known names of stacks to which no name leads.
    pub(crate) orphans: Vec<StackName>,
    /// A warning for each stack that has no name or no files.
    pub(crate) warnings: Vec<String>,
    /// Why the list of names is refused.
    pub(crate) refused: CliError,
}

impl Opener {
    /// The stacks of the store at a URL, from its files or objects, after the backend refused to list their names.
    ///
    /// # Errors
    /// `refused`, unless it means damage or distrust, or if the store gives no access to its files or objects.
    pub(crate) async fn beside_damage(
        &self,
        url: &str,
        stacks: &Stacks,
        refused: Error,
    ) -> Result<BesideDamage, CliError> {
        let kind = refused.kind();
        let refused = CliError::from(refused);
        if !matches!(kind, ErrorKind::Corrupt | ErrorKind::Distrusted) {
            return Err(refused);
        }
        let Some(files) = self.files_at(url)? else {
            return Err(refused);
        };
        let folders = files.stacks().await?;
        let mut warnings = Vec::new();
        // Damage is reported for the stack that has it. A name that leads to no known stack any more is not in any stack.
        if kind == ErrorKind::Distrusted {
            warnings.push(described(&refused));
        }
        let pointers = stacks.pointer_names().await.unwrap_or_default();
        warnings.extend(pointers.iter().filter_map(|name| without_files(name, &folders)));
        let (mut names, mut orphans) = (Vec::new(), Vec::new());
        for folder in folders {
            match folder.name {
                Some(name) if !folder.orphaned => names.push(name),
                name => {
                    let known = name.as_ref().map(|name| format!(" {}", name.short()));
                    let known = known.unwrap_or_default();
                    orphans.extend(name);
                    warnings.push(format!(
                        "no name leads to stack{known} (lineage {}): run `statectl salvage`",
                        folder.lineage
                    ));
                }
            }
        }
        names.sort();
        Ok(BesideDamage {
            names,
            orphans,
            warnings,
            refused,
        })
    }
}

impl BesideDamage {
    /// Adds the warning for a stack that can't be read.
    pub(crate) fn warn_of(&mut self, name: &StackName, error: Error) {
        // Distrust isn't damage: `salvage` is no way out.
        let is_distrusted = error.kind() == ErrorKind::Distrusted;
        let error = CliError::from(error);
        match is_distrusted {
            true if error.message == self.refused.message => {}
            true => self.warnings.push(described(&error)),
            false => self.warnings.push(format!(
                "stack {} can't be read: {}: run `statectl salvage`",
                name.short(),
                error.message
            )),
        }
    }
}

/// The message of an error with its hint.
pub(crate) fn described(error: &CliError) -> String {
    match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    }
}

/// A warning for a name whose stack is missing; none if the stack is there. A damaged pointer is reported with its stack.
fn without_files(name: &StackName, folders: &[StackFolder]) -> Option<String> {
    let mut known = folders.iter().filter_map(|folder| folder.name.as_ref());
    if known.any(|one| one.folded() == name.folded()) {
        return None;
    }
    Some(format!(
        "stack {}: its name leads to files that are missing: restore it from a backup with `statectl restore FROM`, or free its \
         name with `statectl salvage`",
        name.short()
    ))
}

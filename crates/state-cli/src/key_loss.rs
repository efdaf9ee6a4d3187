//! Warnings about stacks that the loss of one identity would make unreadable.

use crate::settings::quoted;
use state_core::StackName;
use state_core::head::Keys;
use state_manager::Recipients;
use std::collections::BTreeMap;

/// The recipients of a stack, by what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecipientCounts {
    /// Number of recipients that people and machines use.
    pub(crate) regular: usize,
    /// Number of keys that are kept offline.
    pub(crate) escrow: usize,
}

impl RecipientCounts {
    /// Counts the recipients of the stack. Those of its outputs can't open it.
    pub(crate) fn of(recipients: &Recipients) -> Self {
        let of_stack = &recipients.of_stack;
        let escrow = of_stack
            .iter()
            .filter(|one| is_escrow(one, &recipients.names))
            .count();
        Self {
            regular: of_stack.len() - escrow,
            escrow,
        }
    }

    /// The warning for a stack that depends on one identity; none for a stack without a data key, or with enough recipients.
    pub(crate) fn warning(&self, stack: &StackName) -> Option<String> {
        let stack = stack.short();
        let add = format!("statectl recipients add --stack {}", quoted(&stack));
        match (self.regular, self.escrow) {
            (1, 0) => Some(format!(
                "stack {stack} has only 1 recipient, whose identity nothing can replace: add another with `{add} RECIPIENT`, or \
                 an offline key with `{add} --escrow RECIPIENT`"
            )),
            (1, _) => Some(format!(
                "stack {stack} has only 1 recipient besides its escrow key, which is for emergencies: add another with \
                 `{add} RECIPIENT`"
            )),
            (0, 1..) => Some(format!(
                "stack {stack} has no recipient besides its escrow key: add your own with `{add} RECIPIENT`"
            )),
            _ => None,
        }
    }
}

/// Whether a recipient is an escrow key.
pub(crate) fn is_escrow(recipient: &str, names: &BTreeMap<String, String>) -> bool {
    names.get(recipient).is_some_and(|name| name == Keys::ESCROW)
}

#[cfg(test)]
mod tests {
    use super::RecipientCounts;

    #[test]
    fn one_person_is_warned_about_with_and_without_escrow() {
        let stack = "shop/production".parse().unwrap();
        let warning = |regular, escrow| RecipientCounts { regular, escrow }.warning(&stack);
        let alone = warning(1, 0).unwrap();
        assert!(
            alone.contains("`statectl recipients add --stack shop/production --escrow RECIPIENT`"),
            "{alone}"
        );
        assert!(warning(1, 1).unwrap().contains("besides its escrow key"));
        assert!(warning(0, 2).unwrap().contains("add your own"));
        assert_eq!([warning(0, 0), warning(2, 0), warning(2, 1)], [None, None, None]);
    }
}

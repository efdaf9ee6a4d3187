//! Ways to corrupt a state, each with the expected error.

use super::plan::{Dice, Plan};
use state_core::verify::Rule;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Corruption {
    BadDeposedKey,
    BadIndexKey,
    BadPrivate,
    BadProvider,
    BadSensitivePath,
    BothAttributes,
    Circle,
    CircleOfThree,
    CutShort,
    DuplicateKey,
    HugeSerial,
    NegativeSerial,
    TrailingBytes,
    Twin,
    UnknownMode,
    WrongKind,
    WrongVersion,
}

pub(crate) enum Expected {
    /// An error with line, column, path and this text.
    Malformed(&'static str),
    /// A violation of this integrity rule.
    Violation(Rule),
}

impl Corruption {
    pub(crate) const ALL: [Self; 17] = [
        Self::BadDeposedKey,
        Self::BadIndexKey,
        Self::BadPrivate,
        Self::BadProvider,
        Self::BadSensitivePath,
        Self::BothAttributes,
        Self::Circle,
        Self::CircleOfThree,
        Self::CutShort,
        Self::DuplicateKey,
        Self::HugeSerial,
        Self::NegativeSerial,
        Self::TrailingBytes,
        Self::Twin,
        Self::UnknownMode,
        Self::WrongKind,
        Self::WrongVersion,
    ];

    pub(crate) fn expected(self) -> Expected {
        match self {
            Self::Circle | Self::CircleOfThree => Expected::Violation(Rule::Acyclic),
            Self::Twin => Expected::Violation(Rule::UniqueKey),
            Self::BadDeposedKey => Expected::Malformed("exactly 8 characters"),
            Self::BadIndexKey => Expected::Malformed("`index_key` must be"),
            Self::BadPrivate => Expected::Malformed("base64"),
            Self::BadProvider => Expected::Malformed("isn't a provider reference"),
            Self::BadSensitivePath => Expected::Malformed("path step"),
            Self::BothAttributes => Expected::Malformed("must not have both"),
            Self::CutShort => Expected::Malformed(""),
            Self::DuplicateKey => Expected::Malformed("duplicate key"),
            Self::HugeSerial | Self::NegativeSerial => Expected::Malformed("`serial` must be a whole number"),
            Self::TrailingBytes => Expected::Malformed("more text follows"),
            Self::UnknownMode => Expected::Malformed("unknown `mode`"),
            Self::WrongKind => Expected::Malformed("must be of kind"),
            Self::WrongVersion => Expected::Malformed("positive whole number"),
        }
    }

    /// Writes the state with this corruption at a random place.
    pub(crate) fn apply(self, plan: &Plan, dice: &mut Dice) -> String {
        let text = plan.text();
        let put = |dice: &mut Dice, fields: &str| {
            anywhere(
                &text,
                "\"schema_version\":",
                &format!("{fields},\"schema_version\":"),
                dice,
            )
        };
        match self {
            Self::BadDeposedKey => put(dice, "\"deposed\":\"abc\""),
            Self::BadIndexKey => anywhere(
                &text.replace("\"index_key\"", "\"x\""),
                "\"schema_version\":",
                "\"index_key\":1.5,\"schema_version\":",
                dice,
            ),
            Self::BadPrivate => put(dice, "\"private\":\"hunter2!\""),
            Self::BadProvider => anywhere(&text, "provider[", "${hunter2}[", dice),
            Self::BadSensitivePath => anywhere(&text, "\"get_attr\"", "\"splat\"", dice),
            Self::BothAttributes => put(dice, "\"attributes_flat\":{\"a\":\"hunter2\"}"),
            Self::Circle => cycle(plan, 2, dice),
            Self::CircleOfThree => cycle(plan, 3, dice),
            Self::CutShort => text[..1 + dice.below(text.len() - 1)].to_owned(),
            Self::DuplicateKey => put(dice, "\"schema_version\":1"),
            Self::HugeSerial => text.replace("\"serial\":3", "\"serial\":18446744073709551616"),
            Self::NegativeSerial => text.replace("\"serial\":3", "\"serial\":-3"),
            Self::TrailingBytes => format!("{text}\n{}", ["x", "{}", "\u{0}"][dice.below(3)]),
            Self::Twin => duplicate(plan, dice),
            Self::UnknownMode => anywhere(&text, "\"managed\"", "\"hunter2\"", dice),
            Self::WrongKind => anywhere(
                &text,
                "\"schema_version\":",
                "\"status\":[],\"schema_version\":",
                dice,
            )
            .replace("\"status\":\"tainted\",\"status\":[]", "\"status\":[]"),
            Self::WrongVersion => text.replace(
                "\"version\":4",
                ["\"version\":\"4\"", "\"version\":4.0", "\"version\":-4"][dice.below(3)],
            ),
        }
    }
}

/// Replaces a random occurrence of `from`.
fn anywhere(text: &str, from: &str, to: &str, dice: &mut Dice) -> String {
    let places: Vec<_> = text.match_indices(from).map(|(at, _)| at).collect();
    let at = places[dice.below(places.len())];
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// The state of the plan with a dependency cycle of `length` resources.
fn cycle(plan: &Plan, length: usize, dice: &mut Dice) -> String {
    let count = plan.resources.len();
    let first = dice.below(count - length + 1);
    let mut lists: Vec<BTreeSet<usize>> = (0..count).map(|at| plan.ancestors(at)).collect();
    for step in 0..length {
        lists[first + step].insert(first + (step + 1) % length);
    }
    plan.text_with(&lists)
}

/// The state of the plan with a duplicate instance.
fn duplicate(plan: &Plan, dice: &mut Dice) -> String {
    let at = dice.below(plan.resources.len());
    let mut again = plan.clone();
    let resource = &mut again.resources[at];
    resource.instances.push(resource.instances[0].clone());
    again.text()
}

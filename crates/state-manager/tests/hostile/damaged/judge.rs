//! Compares the observations on a damaged store with those on the intact one.

use super::answers::{Answer, Answers};
use super::excuses::{self, Case};
use super::harm::Harm;
use super::specimen::{Client, Observations, Specimen};
use crate::scenario::name;
use std::collections::BTreeSet;

/// The judgement of one damage.
#[derive(Default)]
pub(super) struct Judgement {
    /// Whether the client got an error that names the damaged object.
    pub(super) is_noticed: bool,
    /// The excuses that were used, by their number.
    pub(super) excuses: BTreeSet<usize>,
    /// The rules that the answers break.
    pub(super) broken: Vec<String>,
}

/// Judges the observations of a client after the damage of the object with this number.
pub(super) fn judge(
    specimen: &Specimen,
    client: Client,
    (object, harm): (usize, Harm),
    seen: &Observations,
) -> Judgement {
    let mut judgement = Judgement::default();
    let intact = &specimen.intact[&client];
    let (object, _) = &specimen.objects[object];
    let case = |question, answer, intact| Case {
        specimen,
        client,
        object,
        harm,
        question,
        answer,
        intact,
    };
    for (question, answer) in &seen.before.0 {
        judgement.add(
            "before",
            &case(question, answer, intact.before.0.get(question)),
            &[&intact.before],
        );
    }
    let Some(written) = &seen.written else {
        return judgement;
    };
    let written = written.clone().map(|()| "written".to_owned());
    let mut honest = Answers::default();
    honest.0.insert("write".to_owned(), Ok("written".to_owned()));
    judgement.add("update", &case("write", &written, None), &[&honest]);
    // A write that failed may have been applied or not.
    let mut honest = vec![&intact.after];
    if written.is_err() {
        honest.push(&intact.before);
    }
    for (question, answer) in &seen.after.0 {
        judgement.add(
            "after",
            &case(question, answer, honest[honest.len() - 1].0.get(question)),
            &honest,
        );
    }
    judgement
}

impl Judgement {
    /// Adds the judgement of one answer, which must be one of the honest ones or an error that names the object.
    fn add(&mut self, phase: &str, case: &Case<'_>, honest: &[&Answers]) {
        if honest
            .iter()
            .any(|answers| answers.0.get(case.question) == Some(case.answer))
        {
            return;
        }
        match case.answer {
            Err(error) if is_named(case.object, error) => self.is_noticed = true,
            Ok(report) if case.question == "verify" && is_reported(case.object, report) => {
                self.is_noticed = true;
            }
            answer => match excuses::find(case) {
                Some(excuse) => drop(self.excuses.insert(excuse)),
                None => self.broken.push(format!(
                    "{phase}, {}: {}",
                    case.question,
                    shortened(answer, case, honest)
                )),
            },
        }
    }
}

/// Whether a text names an object: by its path in the store or, for an object of a stack, by the lineage and the path in
/// the stack's folder. A name pointer is also named by the name of the stack, and a key file by the id of its key: users know
/// these and not the files, and a key can have several files.
fn is_named(object: &str, text: &str) -> bool {
    let mut parts = object.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("stacks"), Some(lineage), Some(rest)) => {
            let key = rest
                .strip_prefix("keys/")
                .and_then(|file| file.split(['-', '.']).nth(1));
            (text.contains(rest) && text.contains(lineage)) || key.is_some_and(|key| text.contains(key))
        }
        (Some("names"), ..) => text.contains(object) || text.contains(&format!("stack {}", name().short())),
        _ => text.contains(object),
    }
}

/// Whether the report of a verification lists an object: by its path in the stack's folder, by the serial of a log, or by
/// the id of a key.
fn is_reported(object: &str, report: &str) -> bool {
    let Some((_, name)) = object.rsplit_once('/') else {
        return false;
    };
    let serial = name
        .trim_start_matches('0')
        .split(['.', '-'])
        .next()
        .unwrap_or_default();
    let list = |field: &str| {
        let list = report.split(&format!("{field}: [")).nth(1)?;
        list.split(']').next().map(str::to_owned)
    };
    let is_listed = |field: &str, text: &str| list(field).is_some_and(|list| list.contains(text));
    is_listed("missing_checkpoints", name)
        || (object.contains("/logs/") && is_listed("missing_logs", &format!("Serial({serial})")))
        || (object.contains("/keys/")
            && name
                .split(['-', '.'])
                .nth(1)
                .is_some_and(|key| is_listed("unopened_keys", key)))
}

/// The answer, from the first difference to an honest one.
fn shortened(answer: &Answer, case: &Case<'_>, honest: &[&Answers]) -> String {
    let text = |answer: &Answer| match answer {
        Ok(text) => format!("answer {text}"),
        Err(text) => format!("error {text}"),
    };
    let shown = text(answer);
    if answer.is_err() {
        return shown;
    }
    let of_honest = honest
        .last()
        .and_then(|answers| answers.0.get(case.question))
        .map(text)
        .unwrap_or_default();
    let same = shown
        .bytes()
        .zip(of_honest.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let part = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(60).min(text.len())..];
        String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
    };
    format!("{} instead of {}", part(&shown), part(&of_honest))
}

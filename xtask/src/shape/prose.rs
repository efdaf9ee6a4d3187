//! Rules for the language of comments, texts and names: plain words, full sentences, short test names.

use super::rules::Found;

/// Words that replace a noun or verb that the reader needs. Split, because this file is checked too.
const STAND_INS: [&str; 6] = [
    concat!("to", "ld"),
    concat!("te", "ll"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("sta", "nds"),
    concat!("who", "ever"),
];

/// A doc comment of one line must have more words than this.
const SHORTEST_DOC: usize = 3;

/// Longest name of a test, in characters.
const LONGEST_TEST_NAME: usize = 60;

/// Lines that contain one of [`STAND_INS`] as a word of its own, in any case.
pub(super) fn stand_ins(text: &str) -> Vec<Found> {
    let numbered = (1..).zip(text.lines());
    let found = numbered.flat_map(|(number, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric());
        let stand_ins = words.filter(|word| STAND_INS.iter().any(|bad| word.eq_ignore_ascii_case(bad)));
        stand_ins.map(move |word| {
            let finding = format!("`{word}` hides the subject or the verb: name who does what");
            (Some(number), finding)
        })
    });
    found.collect()
}

/// Doc comments that consist of one line with at most three words.
pub(super) fn short_docs(text: &str) -> Vec<Found> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_doc = |line: Option<&&str>| line.is_some_and(|line| doc_text(line).is_some());
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(doc) = doc_text(line) else { continue };
        let before = index.checked_sub(1).and_then(|index| lines.get(index));
        let is_alone = !is_doc(before) && !is_doc(lines.get(index + 1)) && !doc.starts_with("```");
        let words = doc.split_whitespace().count();
        if is_alone && (1..=SHORTEST_DOC).contains(&words) {
            let finding = format!("`{doc}` is no sentence: say what the item is or does");
            found.push((Some(index + 1), finding));
        }
    }
    found
}

fn doc_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim())
}

/// Functions under a `#[test]` or `#[tokio::test]` attribute whose names are longer than [`LONGEST_TEST_NAME`].
pub(super) fn test_names(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let signature = line.strip_prefix("async ").unwrap_or(line);
        let Some(signature) = signature.strip_prefix("fn ") else {
            continue;
        };
        let name = signature.split(['(', '<']).next().unwrap_or_default();
        if std::mem::take(&mut is_test) && name.len() > LONGEST_TEST_NAME {
            let finding = format!(
                "test name of {} characters, more than {LONGEST_TEST_NAME}: {name}",
                name.len()
            );
            found.push((Some(number), finding));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{short_docs, stand_ins, test_names};

    #[test]
    fn stand_ins_are_found_as_whole_words_only() {
        let text = concat!("// No", "body was to", "ld.\n// A teller toldest storytelling.\n");
        let lines: Vec<_> = stand_ins(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [Some(1), Some(1)]);
        assert_eq!(stand_ins(concat!("fn te", "ll() {}\n")).len(), 1);
    }

    #[test]
    fn short_docs_are_found_where_they_are_alone() {
        let lines = |text: &str| -> Vec<_> { short_docs(text).into_iter().map(|(line, _)| line).collect() };
        assert_eq!(lines("/// Which one.\nfn a() {}\n"), [Some(1)]);
        assert_eq!(lines("//! Why it fails.\n"), [Some(1)]);
        assert!(lines("/// Time of the last heartbeat.\nfn a() {}\n").is_empty());
        assert!(lines("/// Heading\n///\n/// The rest of it.\nfn a() {}\n").is_empty());
        assert!(lines("//// A rule.\n// Why.\n/// ```\n").is_empty());
    }

    #[test]
    fn long_test_names_are_found_and_other_long_names_are_not() {
        let name = "a".repeat(61);
        assert_eq!(test_names(&format!("#[test]\nfn {name}() {{}}\n")).len(), 1);
        assert_eq!(
            test_names(&format!("#[tokio::test]\nasync fn {name}() {{}}\n")).len(),
            1
        );
        assert!(test_names(&format!("#[test]\nfn {}() {{}}\n", "a".repeat(60))).is_empty());
        assert!(test_names(&format!("fn {name}() {{}}\n#[test]\nfn a() {{}}\n")).is_empty());
    }
}

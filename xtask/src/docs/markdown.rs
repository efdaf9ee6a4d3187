//! Parses the references of a Markdown page: headings, links, and paths in code spans.

/// A reference with the number of its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Returns the anchors of the headings, as GitHub and mdBook derive them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let base = slug(title.trim());
        // A repeated heading gets a number.
        let free = (1..).map(|number| format!("{base}-{number}"));
        let anchor = std::iter::once(base.clone())
            .chain(free)
            .find(|anchor| !anchors.contains(anchor));
        anchors.extend(anchor);
    }
    anchors
}

fn slug(title: &str) -> String {
    let kept = title.chars().filter_map(|char| match char {
        ' ' => Some('-'),
        '-' | '_' => Some(char),
        _ => char.is_alphanumeric().then_some(char),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Returns the targets of inline links and link definitions, without those in code.
pub(super) fn links(text: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        let prose: String = spans(prose)
            .filter(|span| !span.code)
            .map(|span| span.text)
            .collect();
        for (index, _) in prose.match_indices("](") {
            let rest = &prose[index + 2..];
            // A title may follow the target.
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            let target = rest[..end].to_owned();
            found.push(Reference { line, target });
        }
        if let Some((_, target)) = prose
            .strip_prefix('[')
            .and_then(|definition| definition.split_once("]: "))
        {
            let target = target.trim().to_owned();
            found.push(Reference { line, target });
        }
    }
    found
}

/// Returns the text of code spans that are paths of this repository.
pub(super) fn paths(text: &str) -> Vec<Reference> {
    const TOP: [&str; 6] = ["crates/", "tests/", "xtask/", "docs/", "fuzz/", ".ci/"];
    let plain = |char: char| char.is_ascii_alphanumeric() || "_./-".contains(char);
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        for span in spans(prose).filter(|span| span.code) {
            if TOP.iter().any(|top| span.text.starts_with(top)) && span.text.chars().all(plain) {
                let target = span.text.to_owned();
                found.push(Reference { line, target });
            }
        }
    }
    found
}

/// Returns the lines outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let line = line.trim_start();
        let opens = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (fence, opens) {
            (None, None) => true,
            (None, opens) => {
                fence = opens;
                false
            }
            (Some(open), _) => {
                if line.trim_end() == open {
                    fence = None;
                }
                false
            }
        }
    })
}

struct Span<'a> {
    code: bool,
    text: &'a str,
}

/// Splits a line at its backticks.
fn spans(line: &str) -> impl Iterator<Item = Span<'_>> {
    line.split('`').enumerate().map(|(number, text)| Span {
        code: number % 2 == 1,
        text,
    })
}

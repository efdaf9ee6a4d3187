//! Rules about references: each leads to a page, an anchor or a file that exists, and the book's pages are listed.

use super::Page;
use super::markdown::{Reference, anchors, links, paths};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Decisions may name files that were planned or are gone: they are records of their time.
const RECORDS: [&str; 2] = ["docs/decisions/", "CHANGELOG.md"];

/// Written by `cargo xtask nightly`; absent from a clone until then.
const GENERATED: &str = "docs/evidence";

/// References that lead nowhere, as `page:line: what is wrong`.
pub(super) fn findings(pages: &[Page], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        let mut report = |reference: &Reference, what: String| {
            found.push(format!("{}:{}: {what}", page.path, reference.line));
        };
        for link in links(&page.text) {
            if let Some(what) = broken(pages, page, &link.target, exists) {
                report(&link, what);
            }
        }
        if RECORDS.iter().any(|record| page.path.starts_with(record)) {
            continue;
        }
        for path in paths(&page.text) {
            let target = path.target.trim_end_matches('/');
            if !target.starts_with(GENERATED) && !exists(target) {
                report(&path, format!("there is no file `{}`", path.target));
            }
        }
    }
    found
}

/// Pages of the book that its table of contents doesn't list.
pub(super) fn unlisted(pages: &[Page]) -> Vec<String> {
    let summary = pages.iter().find(|page| page.path == SUMMARY);
    let listed: Vec<String> = summary
        .map(|summary| links(&summary.text))
        .unwrap_or_default()
        .iter()
        .filter_map(|link| resolve(SUMMARY, &link.target))
        .collect();
    let missing = pages.iter().filter(|page| {
        page.path.starts_with("docs/") && page.path != SUMMARY && !listed.contains(&page.path)
    });
    missing
        .map(|page| {
            let title = page.text.lines().next().unwrap_or_default();
            let title = title.trim_start_matches(['#', ' ']);
            let link = page.path.trim_start_matches("docs/");
            format!(
                "{}: it isn't listed in {SUMMARY}: add `- [{title}]({link})`",
                page.path
            )
        })
        .collect()
}

/// What is wrong with a link, if something is.
fn broken(pages: &[Page], page: &Page, link: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    // Other sites aren't asked: their answers would break determinism. A path of Rust is rustdoc's to resolve.
    if link.contains("://") || link.starts_with("mailto:") || link.contains("::") {
        return None;
    }
    let (file, anchor) = link
        .split_once('#')
        .map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() {
        page.path.clone()
    } else {
        let Some(target) = resolve(&page.path, file) else {
            return Some(format!("the link `{link}` leaves the repository"));
        };
        if page.path.starts_with("docs/") && !target.starts_with("docs/") {
            return Some(format!(
                "the link `{link}` leaves the book: name the file in backticks, by its path from the root"
            ));
        }
        target
    };
    if !exists(&target) {
        return Some(format!("the link `{link}` leads to no file"));
    }
    let anchor = anchor?;
    let known = pages
        .iter()
        .find(|page| page.path == target)
        .is_some_and(|page| anchors(&page.text).iter().any(|known| known == anchor));
    (!known).then(|| format!("the link `{link}` leads to no heading of {target}"))
}

/// The path from the root that a relative path on a page means.
fn resolve(page: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

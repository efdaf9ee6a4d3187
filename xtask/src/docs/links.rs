//! Rules for references: each target exists, and the table of contents lists every page of the book.

use super::Page;
use super::markdown::{Reference, anchors, links, paths};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Decisions may name planned or deleted files, because they record the state of their time.
const RECORDS: [&str; 2] = ["docs/decisions/", "CHANGELOG.md"];

/// The folder that `cargo xtask nightly` writes, which a new clone doesn't have.
const GENERATED: &str = "docs/evidence";

/// Returns the references without a target, as `page:line: problem`.
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

/// Returns the pages of the book that its table of contents doesn't list.
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

/// Returns the problem of a link, if there is one.
fn broken(pages: &[Page], page: &Page, link: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    // Links to other sites aren't followed, because the result would depend on the network. rustdoc checks Rust paths.
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

/// Resolves a relative path on a page to a path from the root.
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

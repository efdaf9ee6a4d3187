//! Tests of the checks of links and of the table of contents.

use super::markdown::{anchors, links, paths};
use super::{Page, install_command, links as rules};

fn page(path: &str, text: &str) -> Page {
    Page {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn findings(pages: &[Page]) -> Vec<String> {
    let exists = |path: &str| pages.iter().any(|page| page.path == path) || path == "crates/a/src/lib.rs";
    rules::findings(pages, &exists)
}

#[test]
fn dead_links_are_reported_with_their_line() {
    let pages = [
        page("docs/a.md", "# A\n\n[b](b.md) [c](guides/c.md#the-end)\n"),
        page(
            "docs/b.md",
            "[gone](gone.md)\n[up](../README.md)\n[out](../../x.md)\n",
        ),
        page(
            "docs/guides/c.md",
            "## The end\n[a](../a.md#b) [here](#the-end)\n",
        ),
        page(
            "README.md",
            "[a](docs/a.md#a) [rust](https://www.rust-lang.org/#x) [T](crate::T)\n",
        ),
    ];
    assert_eq!(
        findings(&pages),
        [
            "docs/b.md:1: the link `gone.md` leads to no file",
            "docs/b.md:2: the link `../README.md` leaves the book: name the file in backticks, by its path from the root",
            "docs/b.md:3: the link `../../x.md` leaves the repository",
            "docs/guides/c.md:2: the link `../a.md#b` leads to no heading of docs/a.md",
        ]
    );
}

#[test]
fn files_named_in_backticks_must_exist() {
    let text = "`crates/a/src/lib.rs`, `crates/a/src`, `crates/*/src`, `cargo test`\n";
    let found = ["there is no file `crates/a/src`"];
    assert_eq!(
        findings(&[page("docs/a.md", text)]),
        found.map(|found| format!("docs/a.md:1: {found}"))
    );
    assert!(findings(&[page("docs/decisions/0001-a.md", text)]).is_empty());
}

#[test]
fn pages_missing_from_the_summary_are_reported() {
    let pages = [
        page(
            "docs/SUMMARY.md",
            "- [A](a.md)\n  - [One](decisions/0001-one.md)\n",
        ),
        page("docs/a.md", ""),
        page("docs/decisions/0001-one.md", ""),
        page("docs/decisions/0002-two.md", "# 0002: Two\n"),
        page("tests/README.md", ""),
    ];
    assert_eq!(
        rules::unlisted(&pages),
        [
            "docs/decisions/0002-two.md: it isn't listed in docs/SUMMARY.md: add `- [0002: Two](decisions/0002-two.md)`"
        ]
    );
}

#[test]
fn code_blocks_hold_no_headings_and_no_links() {
    let text =
        "# One\n```sh\n# two [x](x.md)\n```\n~~~\n# three\n~~~\n`[y](y.md)` [z](z.md \"Z\")\n[w]: w.md\n";
    assert_eq!(anchors(text), ["one"]);
    let targets: Vec<_> = links(text)
        .into_iter()
        .map(|link| (link.line, link.target))
        .collect();
    assert_eq!(targets, [(8, "z.md".to_owned()), (9, "w.md".to_owned())]);
    assert!(paths(text).is_empty());
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# What's `up --json`?\n## Keys, locks\n## Keys, locks\n#no heading\n";
    assert_eq!(anchors(text), ["whats-up---json", "keys-locks", "keys-locks-1"]);
}

#[test]
fn ci_installs_the_version_that_the_failure_names() {
    let script = include_str!("../../../.ci/run");
    assert!(script.contains(&install_command()), "{}", install_command());
}

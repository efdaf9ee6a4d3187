//! Import cycles in small crates, one for each way to name an item.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::graph::Graph;
use super::lexer::{Token, tokens};
use super::parser::modules;

fn graph(files: &[(&str, &str)]) -> Graph {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |file: &str| Ok::<_, Infallible>(files.get(file).map(|text| (*text).to_owned()));
    Graph::read("lib.rs", read).expect("reading from memory does not fail")
}

/// Returns the edges of the only cycle of a crate; none if the crate has no cycle.
fn circle(files: &[(&str, &str)]) -> Vec<String> {
    let mut circles = graph(files).circles();
    assert!(circles.len() < 2, "{circles:?}");
    circles.pop().map_or_else(Vec::new, |circle| circle.edges)
}

/// Whether `a` imports from `b` when `a` consists of this text. `b` imports from `a` and defines some names.
fn reaches_b(a: &str) -> bool {
    let b =
        "use crate::a::A; pub struct B; pub enum Kind { One } pub fn f() {} pub mod inner { pub struct C; }";
    let a = format!("pub struct A; {a}");
    let edges = circle(&[
        ("lib.rs", "mod a; mod b; mod other { pub struct X; }"),
        ("a.rs", &a),
        ("b.rs", b),
    ]);
    edges.iter().any(|edge| edge.starts_with("a.rs -> b.rs"))
}

#[test]
fn every_way_to_name_an_item_is_an_import() {
    for text in [
        "use crate::b::B;",
        "use super::b::B;",
        "use crate::{b::B};",
        "use crate::{other::X, b::{self, B as Renamed}};",
        "use crate::b;",
        "use crate::b as other; fn g() { other::f() }",
        "use super::{b::inner::C};",
        "use crate::b::*;",
        "use crate::b::Kind::*;",
        "use crate::b::B as _;",
        "fn g() { crate::b::f() }",
        "fn g(b: super::b::B) {}",
        "fn g() { println!(\"{}\", crate::b::Kind::One) }",
        "macro_rules! m { () => { $crate::b::f() } }",
        "mod inner { use super::super::b::B; }",
        "mod inner { use crate::b::B; }",
        "impl Trait for A { fn g() { let x: Vec<crate::b::B> = Vec::new(); } }",
        "fn g() { use crate::b::f; f() }",
        "#[cfg(any(test, feature = \"testkit\"))] use crate::b::B;",
        "#[cfg(not(test))] use crate::b::B;",
    ] {
        assert!(reaches_b(text), "{text}");
    }
}

#[test]
fn tests_comments_literals_and_other_crates_import_nothing() {
    for text in [
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, unix))] mod tests { use crate::b::B; }",
        "#[cfg(test)] #[derive(Debug)] pub(crate) struct T(crate::b::B);",
        "#[cfg(test)] impl<X, Y> T<X, Y> for A { fn g() { crate::b::f() } }",
        "struct S { #[cfg(test)] field: crate::b::B, other: u8 }",
        "mod tests { #![cfg(test)] use crate::b::B; }",
        "mod tests { #![cfg(test)] mod inner { use crate::b::B; } }",
        "fn g() { #![cfg(test)] crate::b::f() }",
        "// use crate::b::B;",
        "/* /* nested */ use crate::b::B; */",
        "const T: &str = \"use crate::b::B;\";",
        "const T: &str = r#\"\" use crate::b::B;\"#;",
        "const T: &[u8] = b\"\\\"; use crate::b::B;\";",
        "const T: char = '\"'; // \" crate::b::f()",
        "use ::b::B;",
        "use std::b::B;",
        "use crate::other::X;",
        "fn g<'a>() -> impl Sized + use<'a> { b::f() }",
    ] {
        assert!(!reaches_b(text), "{text}");
    }
}

#[test]
fn code_after_a_test_item_is_read() {
    for test in [
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] mod tests { fn t() { let x = [1; 3]; } }",
        "#[cfg(test)] fn t() -> [u8; 3] { [0; 3] }",
        "#[cfg(test)] const T: [u8; 2] = [1, 2];",
        "#[cfg(test)] use std::fmt;",
        "enum E { #[cfg(test)] T, Other }",
        "mod tests { #![cfg(test)] fn t() { let x = [1; 3]; } }",
        "fn t() { #![cfg(test)] let x = [1; 3]; }",
    ] {
        assert!(reaches_b(&format!("{test} use crate::b::B;")), "{test}");
    }
}

#[test]
fn re_export_is_followed_to_the_defining_file() {
    let edges = circle(&[
        ("lib.rs", "mod a; mod b; pub use b::Thing as Renamed;"),
        ("a.rs", "use crate::Renamed; pub struct A;"),
        ("b.rs", "mod deep; pub use deep::Thing;"),
        ("b/deep.rs", "use crate::a::A; pub struct Thing;"),
    ]);
    assert_eq!(edges, ["a.rs -> b/deep.rs (Renamed)", "b/deep.rs -> a.rs (A)"]);
}

#[test]
fn glob_re_export_is_followed_for_its_names() {
    let files = |name: &'static str| {
        [
            (
                "lib.rs",
                "mod a; mod b; mod c; mod prelude { pub use crate::b::*; pub use crate::c::*; }",
            ),
            ("a.rs", name),
            ("b.rs", "pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ]
    };
    let through = "use crate::prelude::C; pub struct A;";
    assert_eq!(circle(&files(through)), ["a.rs -> c.rs (C)", "c.rs -> a.rs (A)"]);
    assert!(circle(&files("use crate::prelude::B; pub struct A;")).is_empty());
}

#[test]
fn imported_module_counts_by_the_names_used_through_it() {
    let edges = circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b; pub struct A; fn g() { b::f() }"),
        ("b.rs", "mod c; pub use c::f;"),
        ("b/c.rs", "use crate::a::A; pub fn f() {}"),
    ]);
    assert_eq!(edges, ["a.rs -> b/c.rs (f)", "b/c.rs -> a.rs (A)"]);
}

#[test]
fn module_that_re_exports_its_submodules_is_in_no_cycle() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; pub use b::B; pub struct A; fn g() { b::f() }"),
        ("a/b.rs", "use super::A; pub struct B; pub fn f() {}"),
    ];
    assert!(circle(&files).is_empty());
}

#[test]
fn exported_macro_is_found_in_its_defining_file() {
    let edges = circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; crate::shout!();"),
        (
            "b.rs",
            "#[macro_export] macro_rules! shout { () => {} } use crate::a::A;",
        ),
    ]);
    assert_eq!(edges, ["a.rs -> b.rs (shout)", "b.rs -> a.rs (A)"]);
}

#[test]
fn cycle_of_re_exports_ends_the_search() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::X; pub use crate::b::*;"),
        (
            "b.rs",
            "pub use crate::a::X; pub use crate::a::*; use crate::a::Y;",
        ),
    ];
    assert!(circle(&files).is_empty());
}

#[test]
fn files_declared_only_by_tests_are_not_read() {
    let files = [
        ("lib.rs", "mod a; #[cfg(test)] mod tests;"),
        ("a.rs", "pub struct A;"),
        ("tests.rs", "use crate::a::A;"),
    ];
    assert_eq!(graph(&files).len(), 2);
}

#[test]
fn cycles_are_separate_and_the_largest_is_first() {
    let circles = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::e::E; pub struct D;"),
        ("e.rs", "use crate::d::D; pub struct E;"),
    ])
    .circles();
    let sizes: Vec<usize> = circles.iter().map(|circle| circle.size).collect();
    assert_eq!(sizes, [3, 2]);
    assert_eq!(circles[0].edges[2], "c.rs -> a.rs (A)");
}

#[test]
fn use_tree_is_read_to_its_leaves() {
    let text = "pub(crate) use a::{self as me, b::{c, d as e, *}, f::{self}};";
    let read = modules(text);
    let imports: Vec<String> = read[0]
        .imports
        .iter()
        .map(|import| format!("{}={}", import.path.join("::"), import.name))
        .collect();
    assert_eq!(imports, ["a=me", "a::b::c=c", "a::b::d=e", "a::b=*", "a::f=f"]);
    assert!(read[0].imports.iter().all(|import| import.is_export));
}

#[test]
fn lifetimes_numbers_and_raw_names_are_no_literals() {
    let words = |text| {
        tokens(text)
            .into_iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(word),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(words("fn a<'x>(b: &'x str) { 'c' }"), ["fn", "a", "b", "str"]);
    assert_eq!(
        words(r"let q = '\''; r#type 'l: loop"),
        ["let", "q", "type", "loop"]
    );
    assert_eq!(words("0..n 1.5e3 1.max(2) b'x' 0xff_u8 end"), ["n", "max", "end"]);
}

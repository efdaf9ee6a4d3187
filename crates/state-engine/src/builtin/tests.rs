//! Tests of the kind descriptions and of their documentation.

use super::{kinds, registry};
use crate::interrupt::Interrupt;
use crate::kind::{InputType, KindDescription};
use crate::log::Logger;
use crate::provider::{CallContext, CheckRequest};
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{Json, Properties};
use state_manager::{Actor, Environment};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(super) fn environment() -> Environment {
    Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(1)),
        actor: Actor::default(),
        writer_version: "0".into(),
    }
}

/// A call context, and the lines that are logged in it.
pub(super) fn context() -> (CallContext, Arc<Mutex<Vec<String>>>) {
    let messages: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&messages);
    let observer = move |event: &crate::Event| {
        if let crate::Event::Log(line) = event {
            sink.lock().unwrap().push(line.message.clone());
        }
    };
    let log = Logger::new(Arc::new(ManualClock::default()), Arc::new(observer), None);
    let context = CallContext {
        interrupt: Interrupt::new(),
        log,
        preview: false,
    };
    (context, messages)
}

pub(super) fn json(text: &str) -> Properties {
    Properties::new(Json::parse(text).unwrap()).unwrap()
}

#[test]
fn every_kind_is_described_and_registered() {
    let registry = registry(&environment(), Path::new("/"));
    let described: Vec<&str> = kinds().iter().map(|kind| kind.kind).collect();
    assert_eq!(described, registry.kinds().collect::<Vec<_>>());
    for kind in kinds() {
        let inputs: Vec<&str> = kind.inputs.iter().map(|input| input.name).collect();
        let outputs: Vec<&str> = kind.outputs.iter().map(|output| output.name).collect();
        assert!(inputs.is_sorted() && outputs.is_sorted(), "{}", kind.kind);
        for input in kind.inputs {
            let default = input.default.map(|default| Json::parse(default).unwrap());
            let fits = default.is_none_or(|default| input.takes.fits(default.view()));
            assert!(
                fits && !(input.required && input.default.is_some()),
                "{}",
                input.name
            );
        }
    }
}

/// The lines that describe the properties of a kind in the table of the module documentation.
fn rows(kind: &KindDescription) -> Vec<String> {
    let mut rows = Vec::new();
    for input in kind.inputs {
        let unless = match (input.default, input.required) {
            (Some(default), _) => format!("`{default}`"),
            (None, true) => "required".to_owned(),
            (None, false) => "–".to_owned(),
        };
        rows.push(format!(
            "//! | `{}` | {} | {unless} | {} |",
            input.name, input.takes, input.description
        ));
    }
    for output in kind.outputs {
        let secret = if output.sensitive { ", secret" } else { "" };
        rows.push(format!(
            "//! | → `{}` | output{secret} | | {} |",
            output.name, output.description
        ));
    }
    rows
}

#[test]
fn module_documentation_matches_kind_descriptions() {
    let documentation = include_str!("../builtin.rs");
    let sections = kinds().iter().map(|kind| {
        format!(
            "//! ## `{}`\n//! {}\n//!\n//! | property | type | default | |\n//! |---|---|---|---|\n{}\n",
            kind.kind,
            kind.description,
            rows(kind).join("\n")
        )
    });
    let missing: String = sections
        .filter(|section| !documentation.contains(section))
        .collect();
    assert!(
        missing.is_empty(),
        "missing in the module documentation:\n{missing}"
    );
}

#[test]
fn common_mistakes_do_not_match_the_input_type() {
    let fits = |takes: InputType, value: &str| takes.fits(Json::parse(value).unwrap().view());
    for (takes, value, expected) in [
        (InputType::Mode, r#""0644""#, true),
        (InputType::Mode, r#""644""#, true),
        (InputType::Mode, "420", false),
        (InputType::Mode, r#""0888""#, false),
        (InputType::Mode, r#""64""#, false),
        (InputType::Mode, r#""rw-r""#, false),
        (InputType::Whole(1, 9), "9", true),
        (InputType::Whole(1, 9), "10", false),
        (InputType::Whole(1, 9), "1.0", false),
        (InputType::Whole(1, 9), r#""1""#, false),
        (InputType::Flag, r#""true""#, false),
        (InputType::Texts, r#"["a",1]"#, false),
        (InputType::TextMap, r#"{"a":"b"}"#, true),
        (InputType::TextMap, r#"{"a":1}"#, false),
        (InputType::Text, "null", false),
        (InputType::Any, "null", true),
    ] {
        assert_eq!(fits(takes, value), expected, "{takes} {value}");
    }
}

#[tokio::test]
async fn unknown_inputs_are_neither_missing_nor_defaulted() {
    let registry = registry(&environment(), Path::new("/"));
    let file = Arc::clone(&registry.get("file").unwrap().provider);
    let request = |inputs: &str, unknown: &[&str]| CheckRequest {
        address: "a".parse().unwrap(),
        kind: "file".to_owned(),
        inputs: json(inputs),
        unknown: unknown
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>(),
        old_inputs: None,
        context: context().0,
    };
    let checked = file
        .check(request("{}", &["path", "content", "mode"]))
        .await
        .unwrap();
    assert_eq!(checked.inputs, Properties::empty());
    let checked = file.check(request(r#"{"path":"a"}"#, &["source"])).await.unwrap();
    assert_eq!(checked.inputs, json(r#"{"mode":"0644","path":"/a"}"#));
    let failure = file.check(request("{}", &["pat"])).await.unwrap_err();
    let messages = failure.to_string();
    assert!(
        messages.contains("has no input `pat`") && messages.contains("`path` is missing"),
        "{messages}"
    );
}

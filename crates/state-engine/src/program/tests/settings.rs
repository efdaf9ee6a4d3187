//! Tests of the settings of a program, with values that the user passed, default values, sealed values and missing
//! values.

use super::{messages, parse};
use crate::program::{Configured, ProgramError, SettingType};
use state_core::{Crypter, Error};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once and returns its output. Panics if the future waits.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

/// A crypter that reverses the text and prefixes it with the context. Only the same context decrypts the text.
#[derive(Debug)]
struct Backwards;

impl Crypter for Backwards {
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String, Error> {
        let text = std::str::from_utf8(plaintext).unwrap();
        Ok(format!("{context}:{}", text.chars().rev().collect::<String>()))
    }

    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>, Error> {
        match ciphertext.split_once(':') {
            Some((of, text)) if of == context => Ok(text.chars().rev().collect::<String>().into_bytes()),
            _ => Err(Error::invalid("the value", "it belongs to another context")),
        }
    }
}

fn configured(
    text: &str,
    given: &[(&str, &str)],
    crypter: Option<&dyn Crypter>,
) -> Result<Configured, ProgramError> {
    let given = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    now(parse(text).unwrap().configure(given.collect(), crypter))
}

/// The JSON value of each setting by name. The values of secret settings end with a star.
fn values(configured: &Configured) -> BTreeMap<String, String> {
    let values = configured.settings.iter().map(|(name, value)| {
        let star = if value.secret { "*" } else { "" };
        (name.clone(), format!("{}{star}", value.json.as_str()))
    });
    values.collect()
}

fn lines(result: Result<Configured, ProgramError>) -> Vec<String> {
    let error = result.expect_err("the settings must be refused");
    error.to_string().lines().map(str::to_owned).collect()
}

const SETTINGS: &str = "\
config:
  dir: { default: ./site, description: where the files go }
  count: { type: number }
  on: { type: boolean, default: true }
  any: { type: any, default: { b: [1], a: ~ } }
  token: { secret: true }
  salt: { sealed: 'salt:3retnuh' }
  port: { type: number, secret: true, sealed: 'port: 0808 ' }
resources: {}
";

#[test]
fn declared_settings_have_types_flags_and_descriptions() {
    let program = parse(SETTINGS).unwrap();
    let declared = program.declared().map(|setting| {
        let described = setting.description.as_deref().unwrap_or_default();
        format!(
            "{} {} {} {} {described}",
            setting.name, setting.kind, setting.secret, setting.required
        )
    });
    assert_eq!(
        declared.collect::<Vec<_>>(),
        [
            "dir string false false where the files go",
            "count number false true ",
            "on boolean false false ",
            "any any false false ",
            "token string true true ",
            "salt string true false ",
            "port number true false ",
        ]
    );
    assert_eq!(
        SettingType::ALL.map(SettingType::as_str),
        ["string", "number", "boolean", "any"]
    );
}

#[test]
fn given_settings_override_sealed_values_and_defaults() {
    let given = [("count", "1.50"), ("token", "x: y"), ("salt", "mine")];
    let configured = configured(SETTINGS, &given, Some(&Backwards)).unwrap();
    let expected = [
        ("any", r#"{"a":null,"b":[1]}"#),
        ("count", "1.50"),
        ("dir", r#""./site""#),
        ("on", "true"),
        ("port", "8080*"),
        ("salt", r#""mine"*"#),
        ("token", r#""x: y"*"#),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(values(&configured), BTreeMap::from(expected));
    let shown = format!("{configured:?}");
    assert!(
        !shown.contains("x: y") && !shown.contains("mine") && !shown.contains("8080"),
        "{shown}"
    );
}

#[test]
fn setting_of_type_any_accepts_yaml_and_json() {
    let text = "config: {a: {type: any}}\nresources: {}\n";
    for (given, json) in [
        ("[1, {b: yes}]", r#"[1,{"b":"yes"}]"#),
        (r#"{"b": "\ud83d\ude00"}"#, r#"{"b":"😀"}"#),
        ("~", "null"),
    ] {
        let configured = configured(text, &[("a", given)], None).unwrap();
        assert_eq!(values(&configured)["a"], json);
    }
    for wrong in ["[", "{a: 1, a: 2}", "a: b: c", "*x", ""] {
        assert_eq!(
            lines(configured(text, &[("a", wrong)], None)),
            ["p:1:10: config.a: the given value can't be read as YAML or JSON"]
        );
    }
}

#[test]
fn all_setting_errors_are_reported_without_quoting_values() {
    let given = [("count", "many"), ("on", "yes"), ("dri", "x"), ("sealed", "x")];
    let messages = lines(configured(SETTINGS, &given, None));
    assert_eq!(
        messages,
        [
            "p: config.dri: the program has no such setting; did you mean `dir`?",
            "p: config.sealed: the program has no such setting; expected one of: dir, count, on, any, token, \
             salt, port",
            "p:3:3: config.count: the given value isn't of type number",
            "p:4:3: config.on: the given value isn't of type boolean",
            "p:6:3: config.token: a value of type string is required; pass `--config token=VALUE`",
            "p:7:19: config.salt: no available key can decrypt it; pass `--config salt=VALUE`, or use an \
             identity that is a recipient of the stack",
            "p:8:47: config.port: no available key can decrypt it; pass `--config port=VALUE`, or use an \
             identity that is a recipient of the stack",
        ]
    );
}

#[test]
fn sealed_value_decrypts_under_its_own_name_only() {
    let text = "config:\n  a: {sealed: 'b:x'}\n  c: {type: number, sealed: 'c:terces'}\nresources: {}\n";
    assert_eq!(
        lines(configured(text, &[], Some(&Backwards))),
        [
            "p:2:15: config.a: it can't be decrypted: the value: it belongs to another context; encrypt it again for \
             this stack with `statectl secret encrypt a`",
            "p:3:29: config.c: the sealed value isn't of type number",
        ]
    );
}

#[test]
fn contradictory_setting_is_refused() {
    let text = "\
config:
  a: {type: strin, default: 5}
  b: {default: 5}
  c: {secret: true, default: x}
  d: {type: number, default: '5'}
  f: {sealed: x, default: y}
  g: {sealed: x, secret: false}
  h: text
  i: {type: any, default: {x: 1, x: 2}}
resources: {}
";
    let messages = messages(text);
    let begins = [
        "p:2:13: config.a.type: there is no type `strin`; did you mean `string`?",
        "p:2:29: config.a.default: it must be of type string, not a number",
        "p:3:16: config.b.default: it must be of type string, not a number",
        "p:4:30: config.c.default: a secret can't have a default in plain text; remove it, or set `sealed` to \
         the output of `statectl secret encrypt c`",
        "p:5:30: config.d.default: it must be of type number, not a string",
        "p:6:27: config.f.default: `default` and `sealed` can't be combined",
        "p:7:15: config.g.sealed: a sealed value is always secret",
        "p:8:6: config.h: it must be a mapping, not a string",
        "p:9:34: config.i.default.x: duplicate name",
    ];
    for (at, begins) in begins.iter().enumerate() {
        assert!(
            messages.iter().any(|line| line.starts_with(begins)),
            "{at}: {messages:#?}"
        );
    }
}

#[test]
fn value_errors_are_reported_before_the_run() {
    let text = "\
config: {many: {type: any, default: {a: [1]}}}
resources:
  a:
    kind: f
    inputs:
      x: ${config.many.a[0]}
      y: ${config.many.a[1]}
      z: number ${config.many.a[0]}, list ${config.many.a}
outputs:
  o: ${config.many.b}
";
    let error = configured(text, &[], None).unwrap().into_source().unwrap_err();
    let messages: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        messages,
        [
            "p:7:10: resources.a.inputs.y: `${config.many.a[1]}` can't be resolved: a value of type array has no `[1]`",
            "p:8:43: resources.a.inputs.z: `${config.many.a}` is of type array and can't be embedded in a string; only \
             strings, numbers and booleans can; make the reference the whole value instead",
            "p:10:6: outputs.o: `${config.many.b}` can't be resolved: a value of type object has no `.b`",
        ]
    );
}

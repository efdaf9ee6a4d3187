//! What is read of documents, and what is said of wrong ones.
use super::Program;
fn said(text: &str) -> Vec<String> {
    match Program::parse("p", text.as_bytes()) {
        Ok(_) => vec!["fine".to_owned()],
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}
#[test]
fn look() {
    for text in [
        "",
        "a: [",
        "resources:\n  a: b: c\n",
        "resources:\n\ta: 1\n",
        "resources: {}\n---\nresources: {}\n",
        "resources: &x {}\n",
        "resources: *x\n",
        "resources:\n  a: &x {kind: f}\n  b: *x\n",
        "resources:\n  a: {kind: f}\n  a: {kind: f}\n",
        "{\"resources\": {\"a\": {\"kind\": \"f\"},\n  \"a\": {\"kind\": \"f\"}}}",
        "{\"resources\":\n {\"a\": }}",
        "{\"resources\":\n\t{\"a\": {\"kind\": \"\\ud83d\\ude00\"}}}",
        "resource:\n  a: {knd: f, inputs: [1]}\nresources:\n  config: {kind: f}\n  b: {kind: 1, options: {protect: yes, depends_on: b, timeout: 5}}\n",
        "resources:\n  a:\n    kind: f\n    inputs:\n      x: \"é ${b.id} ${c}\"\n      y: |\n        text\n        and ${config.z} more ${a.id\n      z: ${a.x}\n",
        "resources:\r\n  a:\r\n    kind: f\r\n    inputs:\r\n      x: 'é ${b.id}'\r\n      y: >-\r\n        text\r\n        and ${config.z}\r\n",
        "resources:\n  a: {kind: f, inputs: {x: \"${b.x}\"}}\n  b: {kind: f, options: {depends_on: [c]}}\n  c: {kind: f, options: {parent: a}}\n  d: {kind: f, inputs: {l: [\"a ${d.id}\"]}}\n",
        "a: !foo b\n",
        "a: !!int x\n",
        "resources: !!map {}\nname: !!str 5\n",
        "<<: {}\n",
        "? [a]\n: b\n",
        "a: .inf\n",
        "%YAML 1.2\n---\nresources: {}\n...\n",
        "- a\n",
        "resources:\n",
        "resources: {}\nconfig:\n a: {type: strin, default: 5}\n b: {default: 5}\n c: {secret: true, default: x}\n d: {type: number, default: '5'}\n e: {type: any, default: [1]}\n f: {sealed: x, default: y}",
        "resources: {}\noutputs:\n  a: {a: 1}\n  b: ${x.y}\n  c.d: 1\n",
        "resources: {}\nname: \"a\u{0}b\"\n",
    ] {
        println!("--- {text:?}");
        for line in said(text) {
            println!("{line}");
        }
    }
    println!(
        "{}",
        Program::parse("p", b"resources: {}\nname: \xff").unwrap_err()
    );
    println!(
        "{}",
        Program::parse("p", b"\xef\xbb\xbfresources: {}\nnam: x").unwrap_err()
    );
}

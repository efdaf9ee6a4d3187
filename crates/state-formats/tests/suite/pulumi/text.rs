//! Prints documents as Pulumi does, independently of the code under test.

use serde_json::Value;

/// The keys of all structs, in an order that is correct for each of them. The keys of all other objects are sorted.
const ORDER: [&str; 63] = [
    "name",
    "path",
    "time",
    "magic",
    "urn",
    "custom",
    "create",
    "update",
    "delete",
    "id",
    "resource",
    "type",
    "state",
    "version",
    "features",
    "checkpoint",
    "deployment",
    "stack",
    "target",
    "config",
    "latest",
    "plugins",
    "manifest",
    "secrets_providers",
    "resources",
    "pending_operations",
    "metadata",
    "snippets",
    "extensions",
    "inputs",
    "defaults",
    "outputs",
    "parent",
    "protect",
    "taint",
    "external",
    "dependencies",
    "initErrors",
    "provider",
    "propertyDependencies",
    "pendingReplacement",
    "additionalSecretOutputs",
    "aliases",
    "customTimeouts",
    "importID",
    "retainOnDelete",
    "deletedWith",
    "replaceWith",
    "created",
    "modified",
    "sourcePosition",
    "stackTrace",
    "ignoreChanges",
    "hideDiff",
    "replaceOnChanges",
    "replacementTrigger",
    "refreshBeforeUpdate",
    "viewOf",
    "resourceHooks",
    "extensionRef",
    "snippetID",
    "x_future",
    "y_future",
];

/// Members that are maps, whose keys are sorted.
const MAPS: [&str; 9] = [
    "inputs",
    "outputs",
    "defaults",
    "config",
    "extensions",
    "state",
    "propertyDependencies",
    "resourceHooks",
    "replacementTrigger",
];

/// Prefix of a string that is printed as a number: the digits follow the prefix.
pub(crate) const NUMBER: &str = "@number:";

/// Prints a document as `pulumi stack export` does.
pub(crate) fn exported(document: &Value) -> String {
    print(document, Some(4), true) + "\n"
}

/// Prints a document as older versions of the file backend wrote checkpoints: indented.
pub(crate) fn indented(document: &Value) -> String {
    print(document, Some(4), false) + "\n"
}

/// Prints a document as the file backend writes checkpoints.
pub(crate) fn compact(document: &Value) -> String {
    print(document, None, false)
}

fn print(document: &Value, indent: Option<usize>, html: bool) -> String {
    let mut printer = Printer {
        indent,
        html,
        out: String::new(),
    };
    printer.value(document, 0, false);
    printer.out
}

struct Printer {
    indent: Option<usize>,
    html: bool,
    out: String,
}

impl Printer {
    fn value(&mut self, value: &Value, depth: usize, sorted: bool) {
        match value {
            Value::String(text) => match text.strip_prefix(NUMBER) {
                Some(digits) => self.out.push_str(digits),
                None => self.string(text),
            },
            Value::Array(items) if items.is_empty() => self.out.push_str("[]"),
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.begin(index, depth);
                    self.value(item, depth + 1, sorted);
                }
                self.line(depth);
                self.out.push(']');
            }
            Value::Object(members) if members.is_empty() => self.out.push_str("{}"),
            Value::Object(members) => {
                let mut keys: Vec<&String> = members.keys().collect();
                if !sorted {
                    keys.sort_by_key(|key| {
                        ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len())
                    });
                }
                self.out.push('{');
                for (index, key) in keys.into_iter().enumerate() {
                    self.begin(index, depth);
                    self.string(key);
                    self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
                    self.value(&members[key], depth + 1, sorted || MAPS.contains(&key.as_str()));
                }
                self.line(depth);
                self.out.push('}');
            }
            scalar => self.out.push_str(&scalar.to_string()),
        }
    }

    fn begin(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push(',');
        }
        self.line(depth + 1);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.push_str(&" ".repeat(indent * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\t' => self.out.push_str("\\t"),
                '<' | '>' | '&' if self.html => self.out.push_str(&format!("\\u{:04x}", c as u32)),
                '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                    self.out.push_str(&format!("\\u{:04x}", c as u32));
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Converts strings with the prefix [`NUMBER`] to numbers.
pub(crate) fn numbered(document: &Value) -> Value {
    serde_json::from_str(&compact(document)).expect("it was printed as JSON")
}

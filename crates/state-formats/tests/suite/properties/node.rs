//! JSON values whose members keep their order. They are printed as by Go's encoder, independently of the code under
//! test.

use super::generate::Choices;

#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A scalar in its JSON notation.
    Raw(String),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn raw(text: &(impl ToString + ?Sized)) -> Self {
        Self::Raw(text.to_string())
    }

    /// Prints the value as Terraform writes a file.
    pub(crate) fn indented(&self) -> String {
        let mut out = String::new();
        self.print(Some(0), &mut out);
        out + "\n"
    }

    pub(crate) fn compact(&self) -> String {
        let mut out = String::new();
        self.print(None, &mut out);
        out
    }

    fn print(&self, depth: Option<usize>, out: &mut String) {
        let inner = depth.map(|depth| depth + 1);
        match self {
            Self::Raw(text) => out.push_str(text),
            Self::Text(text) => quote(text, out),
            Self::Array(all) if all.is_empty() => out.push_str("[]"),
            Self::Object(all) if all.is_empty() => out.push_str("{}"),
            Self::Array(all) => {
                for (index, one) in all.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    line(inner, out);
                    one.print(inner, out);
                }
                line(depth, out);
                out.push(']');
            }
            Self::Object(all) => {
                for (index, (key, one)) in all.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    line(inner, out);
                    quote(key, out);
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    one.print(inner, out);
                }
                line(depth, out);
                out.push('}');
            }
        }
    }

    /// Shuffles the members of objects, and reverses the lists of resources and instances.
    pub(crate) fn shuffle(&mut self, choices: &mut Choices) {
        match self {
            Self::Object(all) => {
                for (key, one) in all.iter_mut() {
                    if let ("resources" | "instances", Self::Array(list)) = (key.as_str(), &mut *one) {
                        list.reverse();
                    }
                    one.shuffle(choices);
                }
                for at in (1..all.len()).rev() {
                    all.swap(at, choices.below(at + 1));
                }
            }
            Self::Array(all) => all.iter_mut().for_each(|one| one.shuffle(choices)),
            _ => {}
        }
    }
}

fn line(depth: Option<usize>, out: &mut String) {
    if let Some(depth) = depth {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{0}'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", character as u32));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

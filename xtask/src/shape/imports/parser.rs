//! Parses the imports, paths and definitions of a source file from its tokens. Skips code under `#[cfg(test)]`.

use std::collections::BTreeSet;

use super::lexer::{Token, tokens};

/// A module as one file declares it: the file's own module, or a `mod name { ... }` inside of the file.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Path relative to the file's own module; empty for the file's own module.
    pub(super) path: Vec<String>,
    /// All leaves of `use` trees.
    pub(super) imports: Vec<Import>,
    /// Paths of at least two segments outside of `use`.
    pub(super) paths: Vec<Vec<String>>,
    /// Names of defined items, at any depth.
    pub(super) defined: BTreeSet<String>,
    /// Macros with `#[macro_export]`, which are named from the crate root.
    pub(super) exported_macros: BTreeSet<String>,
    /// Names of declared submodules (`mod name;`).
    pub(super) files: Vec<String>,
}

/// One leaf of a `use` tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The full path; a glob import ends before its `*`.
    pub(super) path: Vec<String>,
    /// The name in this module; `*` for a glob.
    pub(super) name: String,
    /// Whether the `use` has a `pub`, and so re-exports the name.
    pub(super) is_export: bool,
}

/// Keywords that precede the name of an item.
const ITEM_KEYWORDS: [&str; 8] = [
    "struct", "enum", "trait", "fn", "type", "const", "static", "union",
];

/// Returns all modules of one file; the file's own module is the first.
pub(super) fn modules(text: &str) -> Vec<Module> {
    let tokens = tokens(text);
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        modules: Vec::new(),
    };
    parser.module(Vec::new());
    parser.modules
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    modules: Vec<Module>,
}

impl<'a> Parser<'a> {
    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.peek(ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Reads up to the brace that closes the module, or to the end of the file.
    fn module(&mut self, path: Vec<String>) {
        let index = self.modules.len();
        self.modules.push(Module {
            path,
            ..Module::default()
        });
        let mut braces = 0_usize;
        let mut is_public = false;
        let mut is_exported_macro = false;
        while let Some(token) = self.peek(0) {
            let was_public = std::mem::take(&mut is_public);
            match token {
                Token::Punctuation('#') => {
                    let attribute = self.attribute();
                    match (attribute.is_test_only, attribute.is_inner, braces) {
                        (false, _, _) => {}
                        (true, false, _) => self.skip_item(),
                        // In a function or an impl: only that block is for tests.
                        (true, true, 1..) => self.skip_block(),
                        (true, true, 0) => return self.skip_module(index),
                    }
                    is_exported_macro |= attribute.is_macro_export;
                    continue;
                }
                Token::Open('{') => braces += 1,
                Token::Close('}') if braces == 0 => return,
                Token::Close('}') => braces -= 1,
                Token::Word("pub") => {
                    self.at += 1;
                    self.skip_restriction();
                    is_public = true;
                    continue;
                }
                Token::Word("mod") => self.submodule(index),
                // `impl Trait + use<'a>` imports nothing.
                Token::Word("use") if self.peek(1) != Some(Token::Punctuation('<')) => {
                    self.at += 1;
                    self.import(index, &[], was_public);
                    continue;
                }
                Token::Word(keyword) if self.defines_item(keyword) => {
                    let is_exported = keyword == "macro_rules" && std::mem::take(&mut is_exported_macro);
                    self.definition(index, is_exported);
                }
                Token::Word(_) if self.peek(1) == Some(Token::PathSeparator) => {
                    let path = self.inline_path();
                    if path.len() > 1 {
                        self.modules[index].paths.push(path);
                    }
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Whether this keyword is followed by a name.
    fn defines_item(&self, keyword: &str) -> bool {
        match keyword {
            "macro_rules" => self.word(2).is_some(),
            _ => ITEM_KEYWORDS.contains(&keyword) && self.word(1).is_some(),
        }
    }

    /// `struct Name` or `macro_rules! name`; stops right before the name.
    fn definition(&mut self, index: usize, is_exported_macro: bool) {
        if self.peek(1) == Some(Token::Punctuation('!')) {
            self.at += 1;
        }
        let name = self.word(1).unwrap_or_default().to_owned();
        let module = &mut self.modules[index];
        if is_exported_macro {
            module.exported_macros.insert(name.clone());
        }
        module.defined.insert(name);
    }

    /// `mod name;` or `mod name { ... }`; stops at the semicolon or the closing brace.
    fn submodule(&mut self, parent: usize) {
        let Some(name) = self.word(1) else { return };
        match self.peek(2) {
            Some(Token::Punctuation(';')) => {
                self.modules[parent].files.push(name.to_owned());
                self.at += 2;
            }
            Some(Token::Open('{')) => {
                let mut path = self.modules[parent].path.clone();
                path.push(name.to_owned());
                self.at += 3;
                self.module(path);
            }
            _ => {}
        }
    }

    /// Skips the `(crate)` of `pub(crate)`, but not the type of `pub (A, B)`.
    fn skip_restriction(&mut self) {
        let is_restriction = self.peek(0) == Some(Token::Open('('))
            && matches!(self.word(1), Some("crate" | "self" | "super" | "in"))
            && (self.word(1) == Some("in") || self.peek(2) == Some(Token::Close(')')));
        if is_restriction {
            self.skip_group();
        }
    }

    /// `a::b::c`, up to the first segment that isn't a name.
    fn inline_path(&mut self) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(word) = self.word(0) {
            path.push(word.to_owned());
            self.at += 1;
            if self.peek(0) != Some(Token::PathSeparator) {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// One branch of a `use` tree; stops at the `,`, `}` or `;` behind it.
    fn import(&mut self, index: usize, prefix: &[String], is_export: bool) {
        let mut path = prefix.to_vec();
        let mut name = None;
        while let Some(token) = self.peek(0) {
            match token {
                Token::Punctuation(',' | ';') | Token::Close(_) => break,
                // A path that begins with `::` names another crate.
                Token::PathSeparator if path.is_empty() => path.push(String::new()),
                Token::Word("as") => {
                    self.at += 1;
                    name = self.word(0).map(str::to_owned);
                }
                Token::Word(word) => path.push(word.to_owned()),
                Token::Punctuation('*') => name = Some("*".to_owned()),
                Token::Open('{') => {
                    while matches!(self.peek(0), Some(Token::Open('{') | Token::Punctuation(','))) {
                        self.at += 1;
                        self.import(index, &path, is_export);
                    }
                    // Skips the closing brace. The group itself pushes no import, because each of its branches pushed
                    // one.
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
        if path.len() == prefix.len() && name.is_none() {
            return;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        self.modules[index].imports.push(Import {
            path,
            name,
            is_export,
        });
    }

    /// Reads `#[...]` or `#![...]` and moves behind it.
    fn attribute(&mut self) -> Attribute {
        self.at += 1;
        let is_inner = self.peek(0) == Some(Token::Punctuation('!'));
        if is_inner {
            self.at += 1;
        }
        let start = self.at;
        if self.peek(0) == Some(Token::Open('[')) {
            self.skip_group();
        }
        let words: Vec<&str> = self.tokens[start..self.at]
            .iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(*word),
                _ => None,
            })
            .collect();
        Attribute {
            is_inner,
            // Code under `any(test, ...)` or `not(test)` is also built outside of tests.
            is_test_only: matches!(words.as_slice(), ["cfg", "test"] | ["cfg", "all", "test", ..]),
            is_macro_export: words.first() == Some(&"macro_export"),
        }
    }

    /// Skips a bracketed group; begins at the opening bracket.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.peek(0) {
            self.at += 1;
            match token {
                Token::Open(_) => depth += 1,
                Token::Close(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips the code that an attribute belongs to: an item with its body or semicolon, or a field, variant, arm or
    /// statement.
    fn skip_item(&mut self) {
        while self.peek(0) == Some(Token::Punctuation('#')) {
            self.attribute();
        }
        if self.word(0) == Some("pub") {
            self.at += 1;
            self.skip_restriction();
        }
        let is_item = self.word(0).is_some_and(|word| {
            ITEM_KEYWORDS.contains(&word)
                || matches!(
                    word,
                    "use" | "mod" | "impl" | "async" | "unsafe" | "extern" | "macro_rules"
                )
        });
        while let Some(token) = self.peek(0) {
            match token {
                Token::Close(_) => return,
                Token::Open(bracket) => {
                    self.skip_group();
                    if bracket == '{' {
                        return;
                    }
                }
                Token::Punctuation(';') => {
                    self.at += 1;
                    return;
                }
                Token::Punctuation(',') if !is_item => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Skips the rest of a module that is for tests. Its path stays: without it an inline module would count as the
    /// file's own module.
    fn skip_module(&mut self, index: usize) {
        let path = std::mem::take(&mut self.modules[index].path);
        self.modules[index] = Module {
            path,
            ..Module::default()
        };
        self.skip_block();
    }

    /// Moves to the brace that closes the current block or module.
    fn skip_block(&mut self) {
        let mut braces = 0_usize;
        while let Some(token) = self.peek(0) {
            match token {
                Token::Open('{') => braces += 1,
                Token::Close('}') if braces == 0 => return,
                Token::Close('}') => braces -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}

struct Attribute {
    is_inner: bool,
    is_test_only: bool,
    is_macro_export: bool,
}

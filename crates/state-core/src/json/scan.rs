//! The strict parser. It checks in linear time, without a tree and without recursion, that a text is one JSON value.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Limits;
use super::error::{Step, render_path};
use super::index::ContainerIndex;
use super::text::{code_unit, end_of_plain, skip_space, unescape};

/// The number of keys up to which duplicates in an object are found by linear search. Larger objects use a set.
const LINEAR_KEYS: usize = 16;

/// The error for an invalid text. It contains the offset, from which line and column are computed later.
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) path: String,
    pub(super) message: Cow<'static, str>,
    /// Whether the text is valid up to its end, but incomplete.
    pub(super) cut_short: bool,
}

/// Validates `text`, and notes its containers in the index, if there is one; returns the offset at which its value starts.
pub(super) fn scan(text: &str, limits: &Limits, index: Option<&mut ContainerIndex>) -> Result<usize, Fault> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        limits,
        frames: Vec::new(),
        keys: Vec::new(),
        index,
    };
    scanner.document().map_err(|refusal| Fault {
        offset: refusal.offset,
        path: render_path(scanner.steps()),
        message: refusal.message,
        cut_short: refusal.cut_short,
    })
}

/// A [`Fault`] without the path, which [`scan`] adds.
struct Refusal {
    offset: usize,
    message: Cow<'static, str>,
    cut_short: bool,
}

type ScanResult<T = ()> = Result<T, Refusal>;

fn refuse<T>(offset: usize, message: impl Into<Cow<'static, str>>) -> ScanResult<T> {
    Err(Refusal {
        offset,
        message: message.into(),
        cut_short: false,
    })
}

/// An array or object that is not closed yet.
enum Frame<'a> {
    Array {
        index: usize,
    },
    Object {
        /// The current key, as written between its quotes.
        key: Option<&'a str>,
        /// The index of this object's first key in `Scanner::keys`.
        first_key: usize,
        /// The set of all keys, once there are too many for a linear search.
        many: Option<HashSet<Cow<'a, str>>>,
    },
}

struct Scanner<'a, 'i> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    frames: Vec<Frame<'a>>,
    /// The keys of all open objects without a set, outermost object first.
    keys: Vec<Cow<'a, str>>,
    index: Option<&'i mut ContainerIndex>,
}

impl<'a> Scanner<'a, '_> {
    fn document(&mut self) -> ScanResult<usize> {
        let start = self.skip_space();
        if start == self.bytes.len() {
            let message = if start == 0 {
                "the text is empty"
            } else {
                "the text contains only white space"
            };
            return self.cut_short(message);
        }
        loop {
            let opened = self.value()?;
            if !opened && !self.next_value()? {
                break;
            }
        }
        if self.skip_space() != self.bytes.len() {
            return refuse(self.at, "more text follows the value");
        }
        Ok(start)
    }

    /// Reads a scalar or an empty container completely. For any other container, reads up to its first value and
    /// returns `true`.
    fn value(&mut self) -> ScanResult<bool> {
        let Some(&byte) = self.bytes.get(self.at) else {
            return self.cut_short("the text ends where a value is expected");
        };
        match byte {
            b'{' => {
                return self.open(
                    Frame::Object {
                        key: None,
                        first_key: self.keys.len(),
                        many: None,
                    },
                    b'}',
                );
            }
            b'[' => return self.open(Frame::Array { index: 0 }, b']'),
            b'"' => self.string().map(drop)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => self.literal()?,
        }
        Ok(false)
    }

    /// Reads the opening bracket of a container. Reads an empty container completely and returns `false`; otherwise
    /// returns `true` at the first value.
    fn open(&mut self, frame: Frame<'a>, close: u8) -> ScanResult<bool> {
        if self.frames.len() >= self.limits.max_depth {
            return refuse(
                self.at,
                format!("nested deeper than {} levels", self.limits.max_depth),
            );
        }
        let start = self.at;
        self.at += 1;
        let is_object = matches!(frame, Frame::Object { .. });
        self.skip_space();
        if self.bytes.get(self.at) == Some(&close) {
            self.at += 1;
            return Ok(false);
        }
        if let Some(index) = &mut self.index {
            index.open(start);
        }
        self.frames.push(frame);
        if is_object {
            self.key()?;
        }
        Ok(true)
    }

    /// Closes the containers that end after a value, and advances to the next value; returns whether a next value
    /// exists.
    fn next_value(&mut self) -> ScanResult<bool> {
        while let Some(frame) = self.frames.last_mut() {
            let at = skip_space(self.bytes, self.at);
            self.at = at;
            match (frame, self.bytes.get(at)) {
                (Frame::Array { index }, Some(b',')) => {
                    self.at = skip_space(self.bytes, at + 1);
                    if self.bytes.get(self.at) == Some(&b']') {
                        return refuse(at, "a comma before the end of an array");
                    }
                    *index += 1;
                    return Ok(true);
                }
                (Frame::Object { .. }, Some(b',')) => {
                    self.at = skip_space(self.bytes, at + 1);
                    if self.bytes.get(self.at) == Some(&b'}') {
                        return refuse(at, "a comma before the end of an object");
                    }
                    self.key()?;
                    return Ok(true);
                }
                (Frame::Array { .. }, Some(b']')) => {}
                (Frame::Object { first_key, .. }, Some(b'}')) => self.keys.truncate(*first_key),
                (Frame::Array { .. }, None) => return self.cut_short("the text ends inside an array"),
                (Frame::Object { .. }, None) => return self.cut_short("the text ends inside an object"),
                (Frame::Array { .. }, Some(_)) => return refuse(at, "expected `,` or `]`"),
                (Frame::Object { .. }, Some(_)) => return refuse(at, "expected `,` or `}`"),
            }
            self.frames.pop();
            self.at += 1;
            if let Some(index) = &mut self.index {
                index.close(self.at);
            }
        }
        Ok(false)
    }

    /// Reads a key and its colon, up to the value.
    fn key(&mut self) -> ScanResult {
        if let Some(Frame::Object { key, .. }) = self.frames.last_mut() {
            *key = None;
        }
        let start = self.at;
        match self.bytes.get(start) {
            Some(b'"') => {}
            Some(_) => return refuse(start, "expected a key in double quotes"),
            None => return self.cut_short("the text ends where a key is expected"),
        }
        let raw = self.string()?;
        if !self.is_new_key(raw) {
            return refuse(start, "duplicate key");
        }
        match self.bytes.get(self.skip_space()) {
            Some(b':') => {}
            Some(_) => return refuse(self.at, "expected `:` after a key"),
            None => return self.cut_short("the text ends where `:` is expected"),
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Adds a key to the innermost object; returns `false` if the object already has the key.
    fn is_new_key(&mut self, raw: &'a str) -> bool {
        let Some(Frame::Object { key, first_key, many }) = self.frames.last_mut() else {
            return true;
        };
        *key = Some(raw);
        let name = unescape(raw);
        if let Some(many) = many {
            return many.insert(name);
        }
        let seen = &self.keys[*first_key..];
        if seen.contains(&name) {
            return false;
        }
        if seen.len() < LINEAR_KEYS {
            self.keys.push(name);
        } else {
            *many = Some(self.keys.drain(*first_key..).chain([name]).collect());
        }
        true
    }

    /// Reads a string and returns the text between its quotes, undecoded.
    fn string(&mut self) -> ScanResult<&'a str> {
        let start = self.at;
        self.at += 1;
        loop {
            self.at = end_of_plain(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return refuse(self.at, "a control character in a string must be escaped"),
                None => {
                    let message = Cow::Borrowed("a string without a closing quote");
                    return Err(Refusal {
                        offset: start,
                        message,
                        cut_short: true,
                    });
                }
            }
        }
        let raw = &self.text[start + 1..self.at];
        self.at += 1;
        if raw.len() > self.limits.max_string_bytes {
            let (length, limit) = (raw.len(), self.limits.max_string_bytes);
            return refuse(
                start,
                format!("a string of {length} bytes, more than the limit of {limit}"),
            );
        }
        Ok(raw)
    }

    fn escape(&mut self) -> ScanResult {
        let start = self.at;
        match self.bytes.get(start + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match (self.unicode_escape(start)?, self.bytes.get(start + 6..start + 8)) {
                (0xD800..=0xDBFF, Some(b"\\u")) => {
                    if !matches!(self.unicode_escape(start + 6)?, 0xDC00..=0xDFFF) {
                        return refuse(start, "an unpaired surrogate");
                    }
                    self.at += 12;
                }
                (0xD800..=0xDFFF, _) => return refuse(start, "an unpaired surrogate"),
                _ => self.at += 6,
            },
            _ => return refuse(start, "an unknown escape sequence"),
        }
        Ok(())
    }

    /// Returns the code unit of the `\u` escape that begins at `at`.
    fn unicode_escape(&self, at: usize) -> ScanResult<u32> {
        match code_unit(self.bytes, at + 2) {
            Some(unit) => Ok(unit),
            None => refuse(at, "four hexadecimal digits must follow `\\u`"),
        }
    }

    fn number(&mut self) -> ScanResult {
        let start = self.at;
        if self.bytes[start] == b'-' {
            self.at += 1;
        }
        let integer = self.at;
        self.digits("a digit must follow `-`")?;
        if self.bytes[integer] == b'0' && self.at > integer + 1 {
            return refuse(start, "a number with a leading zero");
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("a digit must follow the decimal point")?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits("a digit must follow the exponent mark")?;
        }
        Ok(())
    }

    /// Reads one or more digits. `otherwise` is the error message if there is none.
    fn digits(&mut self, otherwise: &'static str) -> ScanResult {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start {
            refuse(start, otherwise)
        } else {
            Ok(())
        }
    }

    fn literal(&mut self) -> ScanResult {
        let rest = &self.bytes[self.at..];
        let literals: [&[u8]; 3] = [b"true", b"false", b"null"];
        if let Some(literal) = literals.into_iter().find(|literal| rest.starts_with(literal)) {
            self.at += literal.len();
            return Ok(());
        }
        let message = match rest {
            [b'N' | b'I', ..] => "expected a value (JSON has no NaN and no Infinity)",
            [b'+', ..] => "a number must not start with `+`",
            [b'.', ..] => "a digit must precede the decimal point",
            [b'\'', ..] => "a string must be in double quotes",
            [b'/', ..] => "expected a value (JSON has no comments)",
            _ => "expected a value",
        };
        refuse(self.at, message)
    }

    fn skip_space(&mut self) -> usize {
        self.at = skip_space(self.bytes, self.at);
        self.at
    }

    /// Returns the error for a text that is valid up to its end, but incomplete.
    fn cut_short<T>(&self, message: &'static str) -> ScanResult<T> {
        Err(Refusal {
            offset: self.bytes.len(),
            message: Cow::Borrowed(message),
            cut_short: true,
        })
    }

    /// Returns the path from the root to the value that is being read.
    fn steps(&self) -> impl Iterator<Item = Step<'a>> {
        self.frames.iter().filter_map(|frame| match frame {
            Frame::Array { index } => Some(Step::Index(*index)),
            Frame::Object { key, .. } => key.map(|raw| Step::Key(unescape(raw))),
        })
    }
}

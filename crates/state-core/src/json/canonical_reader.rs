//! Reads canonical text in one pass.

use std::borrow::Cow;

use super::canonical::canonical_escape;
use super::marks::Marks;
use super::text::unescape;

/// The longest text that [`CanonicalReader`] reads, in bytes. No string in it exceeds the limit of a stored string.
const MAX_BYTES: usize = 64 << 20;

/// A cursor over a text that is expected to be canonical. One pass checks that a value is JSON, that it is canonical and
/// where it ends; [`Document`](super::Document) and [`is_canonical`](super::is_canonical) need three.
///
/// Every method returns `None` when the text isn't canonical JSON from here on, or isn't what the method reads. The
/// caller then reads the whole text as a document, which accepts every layout and reports what is wrong and where.
/// Keys with escapes count as not canonical, because their order isn't the order of their bytes; they are rare.
///
/// A value that [`value`](Self::value) returns is exactly what [`Json::from_view`](super::Json::from_view) makes of it;
/// a test compares both.
pub(crate) struct CanonicalReader<'a> {
    text: &'a str,
    /// The marks of `text`.
    marks: &'a Marks,
    at: usize,
}

impl<'a> CanonicalReader<'a> {
    /// Creates a reader. It uses the memory of `marks`, whose content it replaces.
    pub(crate) fn new(text: &'a str, marks: &'a mut Marks) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        marks.set(text.as_bytes());
        Some(Self { text, marks, at: 0 })
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Reads this byte if it is the next one. `byte` must be ASCII.
    pub(crate) fn reads(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads this byte, which must be the next one.
    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        self.reads(byte).then_some(())
    }

    /// Reads the opening bracket of an array or object. Reads an empty one completely and returns `false`.
    pub(crate) fn open(&mut self, open: u8, close: u8) -> Option<bool> {
        self.expect(open)?;
        Some(!self.reads(close))
    }

    /// Reads the comma after an element or member, or the closing bracket; returns whether another one follows.
    pub(crate) fn has_next(&mut self, close: u8) -> Option<bool> {
        if self.reads(b',') {
            return Some(true);
        }
        self.expect(close)?;
        Some(false)
    }

    /// Reads the key of a member and its colon. `last` is the key before it in the object. Keys in ascending order
    /// occur only once, so no set of keys is needed.
    pub(crate) fn key_after(&mut self, last: Option<&str>) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        self.at = self.marks.next(start)?;
        let key = self.text.get(start..self.at)?;
        self.text
            .as_bytes()
            .get(self.at..)?
            .starts_with(b"\":")
            .then_some(())?;
        self.at += 2;
        last.is_none_or(|last| last < key).then_some(key)
    }

    /// Reads a string and returns its content, borrowed unless it contains an escape.
    pub(crate) fn string(&mut self) -> Option<Cow<'a, str>> {
        let (raw, has_escapes) = self.raw_string()?;
        Some(if has_escapes {
            unescape(raw)
        } else {
            Cow::Borrowed(raw)
        })
    }

    /// Reads a number without sign, fraction and exponent that fits into a `u64`.
    pub(crate) fn whole_number(&mut self) -> Option<u64> {
        let start = self.at;
        self.number()?;
        self.text.get(start..self.at)?.parse().ok()
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        let flag = self.peek() == Some(b't');
        self.literal(if flag { "true" } else { "false" })?;
        Some(flag)
    }

    /// Reads any value in which at most `depth` arrays and objects are nested, and returns its canonical text.
    pub(crate) fn value(&mut self, depth: usize) -> Option<&'a str> {
        let start = self.at;
        self.skip(depth)?;
        self.text.get(start..self.at)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads a value. The recursion is limited by `depth`.
    fn skip(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.raw_string().map(drop),
            b'{' => self.skip_object(depth.checked_sub(1)?),
            b'[' => self.skip_array(depth.checked_sub(1)?),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number(),
        }
    }

    fn skip_object(&mut self, depth: usize) -> Option<()> {
        let mut last = None;
        let mut has_next = self.open(b'{', b'}')?;
        while has_next {
            last = Some(self.key_after(last)?);
            self.skip(depth)?;
            has_next = self.has_next(b'}')?;
        }
        Some(())
    }

    fn skip_array(&mut self, depth: usize) -> Option<()> {
        let mut has_next = self.open(b'[', b']')?;
        while has_next {
            self.skip(depth)?;
            has_next = self.has_next(b']')?;
        }
        Some(())
    }

    /// Reads a string; returns the text between its quotes, and whether it contains escapes.
    fn raw_string(&mut self) -> Option<(&'a str, bool)> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at = self.marks.next(start)?;
        let has_escapes = self.peek()? == b'\\';
        while self.peek()? != b'"' {
            // A control character that isn't escaped is no escape either.
            self.at += canonical_escape(bytes.get(self.at..)?)?;
            self.at = self.marks.next(self.at)?;
        }
        let raw = self.text.get(start..self.at)?;
        self.at += 1;
        Some((raw, has_escapes))
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        let found = self.text.get(self.at..)?.starts_with(literal);
        self.at += literal.len();
        found.then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.reads(b'-');
        if !self.reads(b'0') {
            self.digits()?;
        }
        if self.reads(b'.') {
            self.digits()?;
        }
        if self.reads(b'e') || self.reads(b'E') {
            let _sign = self.reads(b'+') || self.reads(b'-');
            self.digits()?;
        }
        Some(())
    }

    /// Reads one or more digits.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

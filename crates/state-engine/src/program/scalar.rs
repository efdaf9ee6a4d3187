//! Resolves plain (unquoted) scalars by YAML 1.2's core schema: null, booleans and numbers. All others are strings.

use super::node::Value;

/// Resolves a plain scalar. Returns `None` if the scalar is a string.
///
/// # Errors
/// Returns an error for a number that JSON can't represent.
pub(super) fn plain(text: &str) -> Result<Option<Value>, &'static str> {
    Ok(Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(text)? {
            Some(number) => Value::Number(number),
            None => return Ok(None),
        },
    }))
}

/// Converts a number of the core schema to JSON and keeps the digits of decimal numbers. Returns `None` if the text
/// isn't a number.
///
/// # Errors
/// Returns an error for a number that JSON can't represent.
pub(super) fn number(text: &str) -> Result<Option<String>, &'static str> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let digits = text.strip_prefix(prefix).unwrap_or_default();
        if !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)) {
            let number = u128::from_str_radix(digits, radix);
            let number =
                number.map_err(|_| "a number with a prefix has at most 128 bits: write it in decimal")?;
            return Ok(Some(number.to_string()));
        }
    }
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err("a state can't hold numbers that aren't finite");
    }
    Ok(decimal(unsigned).map(|digits| format!("{sign}{digits}")))
}

/// Parses `[0-9]+` or `[0-9]*.[0-9]*` with at least one digit, and an optional exponent.
fn decimal(text: &str) -> Option<String> {
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits_of(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = rest.split_at(digits_of(rest));
            (Some(fraction), rest)
        }
        None => (None, rest),
    };
    if whole.is_empty() && fraction.is_none_or(str::is_empty) {
        return None;
    }
    if !rest.is_empty() {
        let exponent = rest.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if digits.is_empty() || digits_of(digits) != digits.len() {
            return None;
        }
    }
    let significant = whole.trim_start_matches('0');
    let mut number = String::from(if significant.is_empty() { "0" } else { significant });
    match fraction {
        None => {}
        // JSON requires a digit after the point.
        Some("") => number.push_str(".0"),
        Some(fraction) => {
            number.push('.');
            number.push_str(fraction);
        }
    }
    number.push_str(rest);
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::{number, plain};
    use crate::program::node::Value;

    #[test]
    fn numbers_follow_the_core_schema_and_keep_their_digits() {
        for (text, json) in [
            ("0", "0"),
            ("0644", "644"),
            ("+12", "12"),
            ("-0", "-0"),
            ("-007", "-7"),
            (
                "12345678901234567890123456789012345678901234567890",
                "12345678901234567890123456789012345678901234567890",
            ),
            ("1.50", "1.50"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("5.e3", "5.0e3"),
            ("-1.25E-7", "-1.25E-7"),
            ("0x1F", "31"),
            ("0o17", "15"),
        ] {
            assert_eq!(number(text), Ok(Some(json.to_owned())), "{text}");
        }
        for text in [
            ".", "-", "+", "1_000", "1e", "e3", "0x", "0b1", "1.2.3", "12:30", "-0x1", "1e+", "٣",
        ] {
            assert_eq!(number(text), Ok(None), "{text}");
        }
        for text in [
            ".inf",
            "-.INF",
            "+.Inf",
            ".nan",
            "0xfffffffffffffffffffffffffffffffff",
        ] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn yes_and_no_are_strings() {
        for text in ["yes", "no", "on", "off", "y", "n", "tRUE", "nULL", "a b"] {
            assert!(matches!(plain(text), Ok(None)), "{text}");
        }
        assert!(matches!(plain("True"), Ok(Some(Value::Bool(true)))));
        assert!(matches!(plain("~"), Ok(Some(Value::Null))));
    }
}

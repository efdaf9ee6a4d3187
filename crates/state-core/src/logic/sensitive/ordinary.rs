//! Recognition of values that are no secrets although a marked object contains them: names, versions, hosts, instance
//! types. A user often marks a whole object of settings, of which only a few are secret.

/// Maximum length of an ordinary value, in bytes.
const MAX_LENGTH: usize = 48;

/// Maximum length of a word.
const MAX_WORD: usize = 20;

/// Whether a text consists of words, versions and small numbers, as `kube-system`, `RSA_2048`, `db.t3.micro`,
/// `ubuntu-22.04` or `registry.terraform.io/hashicorp/aws` do.
///
/// A password may have this shape too. Therefore callers apply this function only to values inside a marked object or
/// list, never to a value that has a mark of its own. A text with digits and at least
/// [`MIN_PART_CHARS`](super::MIN_PART_CHARS) characters must also contain a dot, contain no lower-case letter, or end
/// with a port.
pub(super) fn is_ordinary(text: &str) -> bool {
    if text.len() > MAX_LENGTH || text.matches(' ').count() > 1 {
        return false;
    }
    let is_separator = |c: char| matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | ' ');
    let parts: Vec<&str> = text.split(is_separator).filter(|part| !part.is_empty()).collect();
    // The number of an AWS account.
    if let [only] = parts.as_slice()
        && only.len() == 12
        && is_number(only)
    {
        return true;
    }
    let has_digits = |part: &&&str| part.bytes().any(|byte| byte.is_ascii_digit());
    let with_digits = parts.iter().filter(has_digits).count();
    let is_short = text.chars().count() < super::MIN_PART_CHARS;
    let is_constant = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_port = text.rsplit_once(':').is_some_and(|(_, port)| is_number(port)) && with_digits == 1;
    let has_form = with_digits == 0 || is_short || is_constant || is_port || text.contains('.');
    has_form
        && with_digits <= 4
        && parts
            .iter()
            .all(|part| is_word(part) || is_small(part) || is_versioned(part))
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a part is a number of at most five digits.
fn is_small(part: &str) -> bool {
    is_number(part) && part.len() <= 5
}

/// Whether a part is a word of letters, all in one case, or a name in camel case: `kube`, `RSA`, `AdministratorAccess`.
fn is_word(part: &str) -> bool {
    let mut capitals = 0;
    let mut was_capital = false;
    for letter in part.chars() {
        if !letter.is_ascii_alphabetic() {
            return false;
        }
        let is_capital = letter.is_ascii_uppercase();
        capitals += usize::from(is_capital && !was_capital);
        was_capital = is_capital;
    }
    // Each word of a name in camel case has several letters.
    part.len() <= MAX_WORD && (capitals <= 1 || capitals * 4 <= part.len())
}

/// Whether a part is a word with a version of at most two digits: `t3`, `postgres16`, `TLSv1`, `IPV4`.
fn is_versioned(part: &str) -> bool {
    let word = part.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = part.len() - word.len();
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = word.len() - name.len();
    (1..=2).contains(&digits) && suffix <= 2 && !name.is_empty() && is_word(name)
}

#[cfg(test)]
mod tests {
    use super::is_ordinary;

    #[test]
    fn names_versions_and_hosts_are_ordinary() {
        for text in [
            "monitoring",
            "kube-system",
            "ssh-rsa",
            "t3.medium",
            "db.t3.micro",
            "RSA_2048",
            "SYMMETRIC_DEFAULT",
            "PAY_PER_REQUEST",
            "IPV4_ONLY",
            "Standard_LRS",
            "TLSv1.2_2021",
            "Linux/UNIX",
            "ubuntu-22.04",
            "nodejs20.x",
            "postgres16",
            "default.postgres15",
            "us-east-1.amazonaws.com",
            "registry.terraform.io/hashicorp/aws",
            "AdministratorAccess",
            "http://localhost:8080",
            "application/json",
            "30 days",
            "123456789012",
            "admin@example.com",
        ] {
            assert!(is_ordinary(text), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_ordinary() {
        for text in [
            "abc123",
            "7654321",
            "hunter22-abc",
            "hunter22-hunter22",
            "sekret-value-36",
            "q7<Zx&2Kp9#Lm4",
            "CANARYzq81XkW7vLm2",
            "correct horse battery staple",
            "AKIAIOSFODNN7EXAMPLE",
            "postgres://anna:hunter22@db/shop",
            "a1b2c3d4e5",
            "9f86d081884c7d65",
            "pAsSwOrD",
            "s3cr3t!",
        ] {
            assert!(!is_ordinary(text), "{text}");
        }
    }
}

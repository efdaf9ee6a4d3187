//! Suggestions for misspelled names.

/// Returns the candidate with the smallest edit distance from `wanted`, if the distance is small enough for a typo. Of
/// several candidates with the same distance, returns the first.
///
/// ```
/// assert_eq!(state_core::nearest("contnet", ["mode", "content"]), Some("content"));
/// ```
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = wanted.chars().collect();
    // The limit is less than the length of the name, because otherwise any short name would match any other.
    let mut limit = (wanted.len() / 3).max(2).min(wanted.len().saturating_sub(1));
    let mut best = None;
    for candidate in candidates {
        let chars: Vec<char> = candidate.chars().collect();
        if chars.len().abs_diff(wanted.len()) > limit {
            continue;
        }
        let edits = distance(&wanted, &chars);
        if edits < limit || (edits == limit && best.is_none()) {
            limit = edits;
            best = Some(candidate);
        }
    }
    best
}

/// Edit distance: insertions, deletions, substitutions, and transpositions of two adjacent characters.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let substituted = last[j] + usize::from(left != right);
            let mut edits = substituted.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *right && b[j - 1] == *left {
                edits = edits.min(before[j - 1] + 1);
            }
            row.push(edits);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_finds_the_name_behind_a_typo() {
        let names = ["aws_instance.web", "aws_instance.db", "aws_eip.web"];
        assert_eq!(nearest("aws_instnce.web", names), Some("aws_instance.web"));
        assert_eq!(nearest("aws_eip.wbe", names), Some("aws_eip.web"));
        assert_eq!(nearest("histroy", ["destroy", "history"]), Some("history"));
    }

    #[test]
    fn nearest_ignores_unrelated_names() {
        assert_eq!(nearest("google_project.x", ["aws_eip.web"]), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest("x", ["id"]), None);
        assert_eq!(nearest("", ["id"]), None);
    }
}

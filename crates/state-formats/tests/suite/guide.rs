//! Tests that the table of formats in the guide for teams matches the code.

use state_formats::Formats;

const BEGIN: &str = "<!-- formats: begin, generated -->\n";
const END: &str = "<!-- formats: end -->";

#[test]
fn format_table_of_the_guide_matches_the_code() {
    let guide = include_str!("../../../../docs/guides/teams.md");
    let (_, rest) = guide.split_once(BEGIN).expect("the guide has the table");
    let (table, _) = rest.split_once(END).expect("and its end");
    let expected = Formats::standard().table();
    assert!(
        table == expected,
        "put this between the markers in docs/guides/teams.md:\n{expected}"
    );
}

//! The README says of formats what the code says.

use state_formats::Formats;

const BEGIN: &str = "<!-- formats: begin, generated -->\n";
const END: &str = "<!-- formats: end -->";

#[test]
fn the_table_of_formats_in_the_readme_is_the_one_of_the_code() {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once(BEGIN).expect("the README has the table");
    let (table, _) = rest.split_once(END).expect("and its end");
    let expected = Formats::standard().table();
    assert!(
        table == expected,
        "put this between the markers in README.md:\n{expected}"
    );
}

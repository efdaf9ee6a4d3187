//! The rules of the JSON layer, one test each.

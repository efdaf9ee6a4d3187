//! Searches all models: every right variant keeps all rules, and every flaw breaks one.

mod files;
mod names;
mod objects;

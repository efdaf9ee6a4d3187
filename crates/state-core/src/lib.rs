//! Types, codec, DAG, verifier, journal and contracts of infrastructure state: pure, no I/O, no clock.

pub mod json;

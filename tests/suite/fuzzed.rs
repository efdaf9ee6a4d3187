//! Runs every decoder on its fuzzing corpus. `fuzz/README.md` describes how to fuzz.

#[path = "../../fuzz/decoders.rs"]
mod decoders;

use std::path::PathBuf;

/// A function that decodes arbitrary bytes, and panics if a property doesn't hold.
type Decoder = fn(&[u8]);

#[test]
fn every_decoder_survives_its_corpus() {
    let decoders: [(&str, Decoder); 9] = [
        ("terraform", decoders::terraform),
        ("unobin", decoders::unobin),
        ("pulumi", decoders::pulumi),
        ("snapshot", decoders::snapshot),
        ("frame", decoders::frame),
        ("head", decoders::head),
        ("program", decoders::program),
        ("keys", decoders::keys),
        ("stored", decoders::stored),
    ];
    for (name, decode) in decoders {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz/corpus")
            .join(name);
        let files = std::fs::read_dir(&folder).expect("a corpus");
        let mut count = 0;
        for file in files {
            let path = file.expect("a folder that can be listed").path();
            decode(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            count += 1;
        }
        assert!(count >= 5, "{name} has {count} files");
    }
}

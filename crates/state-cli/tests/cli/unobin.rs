//! Imports and exports of unobin snapshots. The sample was written by hand from the format of release 0.4.0, because no
//! sample written by unobin was available.

use crate::sandbox::Sandbox;

const SNAPSHOT: &str = r#"{
  "format-version": 1,
  "stack": {
    "name": "web",
    "version": "1.2.0",
    "content-revision": "9f2c"
  },
  "deployment-id": "production",
  "generated-at": "2026-05-30T09:08:07Z",
  "entries": [
    {
      "address": "resource.web",
      "type": "leaf",
      "kind": "aws.instance",
      "sensitive-inputs": [
        "password"
      ],
      "inputs": {
        "password": "hunter2"
      },
      "depends-on": [
        "resource.net"
      ]
    },
    {
      "address": "resource.net",
      "type": "leaf",
      "kind": "aws.vpc"
    }
  ]
}
"#;

#[test]
fn snapshot_roundtrips_and_its_secrets_stay_masked() {
    let sandbox = Sandbox::new();
    sandbox.write("web.json", SNAPSHOT);
    sandbox.run(&["import", "web.json"]).exits(0);
    let listed = sandbox.run(&["list"]).exits(0);
    assert_eq!(listed.stdout.lines().count(), 2, "{listed:?}");
    let shown = sandbox.run(&["show", "resource.web"]).exits(0);
    assert!(!shown.stdout.contains("hunter2"), "{shown:?}");
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, SNAPSHOT);
    let again = sandbox.run(&["import", "web.json"]).exits(0);
    assert!(
        again.stdout.contains("nothing") || again.stdout.contains("same"),
        "{again:?}"
    );
    assert_eq!(sandbox.history().len(), 1);
    sandbox.write("other.json", SNAPSHOT.replace("\"production\"", "\"staging\""));
    sandbox.run(&["import", "other.json"]).exits(13);
    sandbox.write("newer.json", SNAPSHOT.replace("hunter2", "hunter3"));
    sandbox.run(&["import", "newer.json"]).exits(0);
    sandbox.run(&["rollback", "1-", "--yes"]).exits(0);
    let refused = sandbox.run(&["import", "newer.json"]).exits(13);
    assert!(
        refused
            .stderr
            .contains("the stack has changed since its last import"),
        "{refused:?}"
    );
}

#[test]
fn import_verifies_and_keeps_an_empty_state_unchanged() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "bad.json",
        SNAPSHOT.replace("\"resource.net\"\n      ]", "\"resource.gone\"\n      ]"),
    );
    let refused = sandbox.run(&["import", "bad.json"]).exits(14);
    assert!(refused.stderr.contains("resource.gone"), "{refused:?}");
    let (head, _) = SNAPSHOT.split_once("\"entries\"").unwrap();
    let empty = format!("{head}\"entries\": null\n}}\n");
    sandbox.write("empty.json", &empty);
    sandbox.run(&["import", "empty.json"]).exits(0);
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, empty);
}

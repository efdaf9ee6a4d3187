//! Tests of the rules for strings that look like secrets.

use super::{Suspicion, suspicion};

/// Builds a token at run time, so that no secret scanner reports this file.
fn token(prefix: &str, unit: &str, length: usize) -> String {
    format!(
        "{prefix}{}",
        unit.chars().cycle().take(length).collect::<String>()
    )
}

#[test]
fn known_formats_are_recognised_inside_other_text() {
    for (text, expected) in [
        (token("AKIA", "IOSFODNN7EXAMPLE", 16), Suspicion::ServiceToken),
        (token("ghp_", "aB3", 36), Suspicion::ServiceToken),
        (token("github_pat_", "aB3_", 40), Suspicion::ServiceToken),
        (token("glpat-", "aB3-x", 20), Suspicion::ServiceToken),
        (token("xoxb-", "123-abc", 24), Suspicion::ServiceToken),
        (token("sk_live_", "aB3", 24), Suspicion::ServiceToken),
        (token("AIza", "aB3-_", 35), Suspicion::ServiceToken),
        (token("AGE-SECRET-KEY-1", "QPZRY9X8", 58), Suspicion::PrivateKey),
        (
            token("-----BEGIN RSA PRIVATE KEY-----\n", "aB", 64),
            Suspicion::PrivateKey,
        ),
        (
            token("DefaultEndpointsProtocol=https;AccountKey=", "aB3+/", 64),
            Suspicion::ConnectionString,
        ),
        (
            format!(
                "{}.{}.{}",
                token("eyJ", "aB3", 20),
                token("eyJ", "aB3", 20),
                token("", "aB3", 20)
            ),
            Suspicion::WebToken,
        ),
        (
            token("https://hooks.slack.com/services/", "T0B1a/", 44),
            Suspicion::ServiceToken,
        ),
        (
            token("https://shop.blob.core.windows.net/c?sv=2024&sig=", "aB3%2", 46),
            Suspicion::ServiceToken,
        ),
        (
            "Server=db;Database=shop;User Id=anna;Password=hunter22;".to_owned(),
            Suspicion::ConnectionString,
        ),
        (
            "Server=db;Uid=anna;pwd = hunter22;".to_owned(),
            Suspicion::ConnectionString,
        ),
        (
            "postgres://anna:hunter22@db:5432/shop".to_owned(),
            Suspicion::UrlPassword,
        ),
    ] {
        assert_eq!(suspicion("value", &text), Some(expected), "{text}");
        assert_eq!(
            suspicion("value", &format!("x=\"{text}\" y")),
            Some(expected),
            "inside {text}"
        );
    }
}

#[test]
fn field_names_announce_secrets() {
    for field in [
        "password",
        "db_password",
        "dbPassword",
        "client_secret",
        "apiKey",
        "auth_token",
        "secret_string",
    ] {
        assert_eq!(
            suspicion(field, "hunter22"),
            Some(Suspicion::FieldName),
            "{field}"
        );
    }
    for field in [
        "password_length",
        "secret_arn",
        "secretArn",
        "token_type",
        "secret_id",
        "user",
        "key",
        "0",
    ] {
        assert_eq!(suspicion(field, "hunter22"), None, "{field}");
    }
    for text in [
        "",
        "x",
        "${var.x}",
        "***",
        "arn:aws:secretsmanager:eu-west-1:1:secret:a",
    ] {
        assert_eq!(suspicion("password", text), None, "{text}");
    }
}

#[test]
fn random_words_are_suspicious() {
    assert_eq!(
        suspicion("v", "q7Zx2Kp9Lm4Vt8Rw3Ny6Bc1D"),
        Some(Suspicion::RandomText)
    );
}

#[test]
fn private_keys_in_base64_are_suspicious() {
    // The base64 of `-----BEGIN … PRIVATE KEY-----`: RSA, EC, DSA, OPENSSH, ENCRYPTED, and without a kind.
    for beginning in [
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt",
        "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0t",
        "LS0tLS1CRUdJTiBEU0EgUFJJVkFURSBLRVkt",
        "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg",
        "LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFU",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t",
    ] {
        let key = format!("{beginning}{}", "TUlJRW93".repeat(100));
        assert_eq!(suspicion("pemb64", &key), Some(Suspicion::PrivateKey), "{key}");
        let config = format!("users:\n- user:\n    client-key-data: {key}\n");
        assert_eq!(
            suspicion("kubeconfig", &config),
            Some(Suspicion::PrivateKey),
            "{key}"
        );
    }
    // CERTIFICATE, RSA PUBLIC KEY, PUBLIC KEY, EC PARAMETERS.
    for beginning in [
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0t",
        "LS0tLS1CRUdJTiBSU0EgUFVCTElDIEtF",
        "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0t",
        "LS0tLS1CRUdJTiBFQyBQQVJBTUVURVJT",
    ] {
        let text = format!("{beginning}{}", "TUlJRW93".repeat(100));
        assert_eq!(suspicion("pemb64", &text), None, "{text}");
    }
}

#[test]
fn ordinary_values_are_not_suspicious() {
    for text in [
        "arn:aws:iam::123456789012:role/service-role/my-role",
        "123e4567-e89b-12d3-a456-426614174000",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "projects/my-project/locations/europe-west1/keyRings/ring",
        "aws_instance.production_web_server_number_12",
        "ThisIsAnOrdinaryDescriptionInCamelCase2026",
        "2026-01-01T00:00:00.000000000Z",
        "https://example.com/path?query=1",
        "git://example.com:22/repository",
        "https://anna@example.com",
        "s3://bucket/key-with-a-long-name/and/folders",
        "",
    ] {
        assert_eq!(suspicion("value", text), None, "{text}");
    }
}

#[test]
fn secrets_inside_of_structured_texts_are_recognised() {
    for (text, expected) in [
        (
            r#"[{"name":"app","environment":[{"name":"DB_PASSWORD","value":"hunter22"}]}]"#,
            Some(Suspicion::FieldName),
        ),
        (r#"{"auth":{"apiToken":"hunter22"}}"#, Some(Suspicion::FieldName)),
        (
            r#"{"inner":"{\"password\":\"hunter22\"}"}"#,
            Some(Suspicion::FieldName),
        ),
        (
            "image: app\nauth:\n  password: hunter22\n",
            Some(Suspicion::FieldName),
        ),
        (
            "env:\n- name: DB_PASSWORD\n  value: hunter22\n",
            Some(Suspicion::FieldName),
        ),
        (
            "#!/bin/sh\nexport API_TOKEN='hunter22'\n",
            Some(Suspicion::FieldName),
        ),
        (r#"{"password_length":"24","password":"${var.password}"}"#, None),
        ("password: <filled in later>\nname: app\n", None),
        (r#"{"password":"#, None),
    ] {
        assert_eq!(suspicion("text", text), expected, "{text}");
    }
}

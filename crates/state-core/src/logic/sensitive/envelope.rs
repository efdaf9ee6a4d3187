//! Secrets in envelopes, as objects of a Pulumi state.

use crate::json::{Json, View};

/// The key of a special object of Pulumi; its value is the signature.
const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
/// The signature of a secret.
const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// Returns the value in the envelope of a Pulumi secret whose member `plaintext` is the JSON text of the value, as
/// `pulumi stack export --show-secrets` writes it; `None` for another value. Other resources repeat the value itself,
/// not its JSON text.
pub(super) fn secret_content(view: View<'_>) -> Option<Json> {
    let signature = view.get(SIGNATURE)?;
    let is_secret = signature.as_str().is_some_and(|text| text == SECRET);
    let plaintext = view.get("plaintext").filter(|_| is_secret)?;
    Json::parse(&plaintext.as_str()?).ok()
}

//! Secrets in envelopes: special objects of a Pulumi state that contain a secret value.

use crate::json::{Json, View};

/// Member of each special object of Pulumi. Its value says what the object is.
pub const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";

/// Value of the member [`SIGNATURE`] in the envelope of a secret.
pub const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// Returns the value in the envelope of a Pulumi secret whose member `plaintext` is the JSON text of the value, as
/// `pulumi stack export --show-secrets` writes it; `None` for another value. Other resources repeat the value itself,
/// not its JSON text.
pub(super) fn secret_content(view: View<'_>) -> Option<Json> {
    let signature = view.get(SIGNATURE)?;
    let is_secret = signature.as_str().is_some_and(|text| text == SECRET);
    let plaintext = view.get("plaintext").filter(|_| is_secret)?;
    Json::parse(&plaintext.as_str()?).ok()
}

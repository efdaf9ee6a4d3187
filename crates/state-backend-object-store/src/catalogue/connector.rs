//! The HTTP client of the object stores. It follows no redirect and checks every certificate.
//!
//! `object_store`'s own client follows redirects to any host, with the session token among the headers, and environment
//! variables disable its certificate checks without a word.

use super::CONNECT_TIMEOUT;
use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::{ClientConfigKey, Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Client, NoProxy, Proxy};
use std::time::Duration;

/// Creates the clients of one store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let is_on = |key| options.get_config_value(&key).as_deref() == Some("true");
        if options
            .get_config_value(&ClientConfigKey::AllowInvalidCertificates)
            .is_some_and(|value| value != "false")
        {
            return Err(refused(INVALID_CERTIFICATES));
        }
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .https_only(!is_on(ClientConfigKey::AllowHttp))
            .connect_timeout(connect_timeout(options))
            // The sizes of objects are read from a header that describes the compressed body.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .http1_only();
        if let Some(proxy) = proxy(options)? {
            builder = builder.proxy(proxy);
        }
        let client = builder
            .build()
            .map_err(|_| refused("the HTTP client can't be created"))?;
        Ok(HttpClient::new(client))
    }
}

/// The refusal to send credentials to a server that anyone may be.
const INVALID_CERTIFICATES: &str = "a variable *_ALLOW_INVALID_CERTIFICATES is set, which would send state and credentials \
                                    to any server; unset it, and name the certificate of the server's authority in \
                                    SSL_CERT_FILE";

/// The time limit for a connection: `object_store` lowers it for a metadata service, which exists on cloud machines only.
fn connect_timeout(options: &ClientOptions) -> Duration {
    let configured = options.get_config_value(&ClientConfigKey::ConnectTimeout);
    let seconds = configured.and_then(|text| text.trim().strip_suffix('s')?.parse().ok());
    seconds
        .map_or(CONNECT_TIMEOUT, Duration::from_secs)
        .min(CONNECT_TIMEOUT)
}

/// The proxy of the variables of `object_store`; without one, `reqwest` reads the usual variables.
fn proxy(options: &ClientOptions) -> Result<Option<Proxy>> {
    let Some(url) = options.get_config_value(&ClientConfigKey::ProxyUrl) else {
        return Ok(None);
    };
    // The error would repeat the URL, which may contain a password.
    let proxy = Proxy::all(url).map_err(|_| refused("the proxy URL is invalid"))?;
    let excluded = options.get_config_value(&ClientConfigKey::ProxyExcludes);
    let excluded = excluded.and_then(|hosts| NoProxy::from_string(&hosts));
    Ok(Some(proxy.no_proxy(excluded)))
}

fn refused(reason: &'static str) -> Error {
    Error::Generic {
        store: "HTTP client",
        source: reason.into(),
    }
}

#[cfg(all(test, feature = "aws"))]
mod tests {
    use super::super::backend_types;
    use super::Connector;
    use object_store::ClientConfigKey;
    use object_store::client::{ClientOptions, HttpConnector};
    use state_core::backend::Opening;
    use state_core::testkit::server::CannedServer;
    use std::time::Duration;

    #[tokio::test]
    async fn redirect_takes_no_token_to_another_origin() {
        let other = CannedServer::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        for status in [
            "301 Moved Permanently",
            "302 Found",
            "307 Temporary Redirect",
            "308 Permanent Redirect",
        ] {
            let location = format!("{}/b/format", other.url());
            let server = CannedServer::start(format!(
                "HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            ));
            let kind = backend_types()
                .unwrap()
                .into_iter()
                .find(|kind| kind.name() == "s3");
            let endpoint = server.url();
            let given = [
                ("bucket", "b"),
                ("region", "r"),
                ("endpoint", &*endpoint),
                ("access-key-id", "k"),
                ("secret-access-key", "s"),
                ("session-token", "CANARY"),
            ];
            let store = kind.unwrap().open(given, Opening::Existing, None).unwrap();
            let remote = store.extensions().remote.unwrap();
            let refused = remote.ready().await.unwrap_err();
            assert!(format!("{refused:?}").contains(&status[..3]), "{refused:?}");
            assert!(server.requests().iter().any(|request| request.contains("CANARY")));
        }
        assert_eq!(other.requests(), [""; 0]);
    }

    #[test]
    fn disabled_certificate_check_is_refused() {
        super::super::install_tls();
        let options = ClientOptions::new();
        Connector.connect(&options).unwrap();
        let refused = options.with_config(ClientConfigKey::AllowInvalidCertificates, "true");
        let refused = Connector.connect(&refused).unwrap_err();
        assert!(refused.to_string().contains("SSL_CERT_FILE"), "{refused}");
    }

    #[test]
    fn metadata_service_keeps_its_shorter_time_limit() {
        let limit = |seconds| {
            let options = ClientOptions::new().with_connect_timeout(Duration::from_secs(seconds));
            super::connect_timeout(&options).as_secs()
        };
        assert_eq!((limit(1), limit(5), limit(3600)), (1, 5, 5));
    }
}

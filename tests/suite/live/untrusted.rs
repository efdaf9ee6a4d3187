//! The client refuses a server whose certificate no trusted authority signed.

use super::refusals::{KEYS, elsewhere, refused};
use super::statectl;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

#[test]
fn self_signed_server_receives_no_request() {
    let (port, requests) = self_signed();
    let url = elsewhere("s3://states", &format!("https://127.0.0.1:{port}"));
    for command in ["list", "init"] {
        let ran = refused(
            statectl(&["--backend", &url, command]).envs(KEYS),
            19,
            "invalid peer certificate",
        );
        assert!(ran.err.contains("SSL_CERT_FILE"), "{ran:?}");
    }
    let requests = requests.try_iter().collect::<Vec<_>>();
    assert!(
        !requests.is_empty() && requests.iter().all(Result::is_err),
        "every connection must fail before a request: {requests:?}"
    );
}

/// Starts a TLS server with a self-signed certificate. Returns its port, and a receiver of each request or connection
/// error.
fn self_signed() -> (u16, std::sync::mpsc::Receiver<Result<String, String>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/self-signed");
    let certificate = CertificateDer::from_pem_file(folder.join("certificate.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("the key of the certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key matches the certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let request = answer(&config, stream);
            // The test may have ended and dropped the receiver.
            drop(sender.send(request));
        }
    });
    (port, requests)
}

/// Accepts a TLS connection and answers one request. Returns the request, or the error of the connection.
fn answer(config: &Arc<ServerConfig>, stream: TcpStream) -> Result<String, String> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(|error| error.to_string())?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut request = [0; 4096];
    let length = stream.read(&mut request).map_err(|error| error.to_string())?;
    if length == 0 {
        return Err("the connection was closed without a request".to_owned());
    }
    let answered = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    answered.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&request[..length]).into_owned())
}

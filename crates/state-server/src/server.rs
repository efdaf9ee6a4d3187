//! Listens on a loopback address, and finishes accepted requests before it ends.

use crate::http::HttpOptions;
use crate::http::access::Access;
use crate::http::audit::AuditLog;
use crate::http::request::{Service, router};
use crate::session::Sessions;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use state_core::Clock;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

/// How many connections are open at the same time. Further clients wait.
const MAX_CONNECTIONS: usize = 256;

/// Longest time in which the header of a request has to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a request's header.
const MAX_HEADER: usize = 16 << 10;

/// Pause after an error of the operating system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest time in which a shutdown waits for the answers to be received.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Server {
    sessions: Sessions,
    access: Access,
    audit: AuditLog,
    clock: Arc<dyn Clock>,
    options: HttpOptions,
}

impl Server {
    /// A server of these sessions, for clients with access.
    pub fn new(sessions: Sessions, access: Access, audit: AuditLog, clock: Arc<dyn Clock>) -> Self {
        Self {
            sessions,
            access,
            audit,
            clock,
            options: HttpOptions::default(),
        }
    }

    /// The same server with other limits.
    #[must_use]
    pub const fn with_options(mut self, options: HttpOptions) -> Self {
        self.options = options;
        self
    }

    /// Starts to listen on an address of this machine. Port 0 chooses a free port.
    ///
    /// # Errors
    /// `PermissionDenied` for an address that other machines can reach, because the server doesn't encrypt its connections;
    /// any error of the operating system.
    pub async fn start(self, address: SocketAddr) -> io::Result<ServerHandle> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the server doesn't encrypt connections, so it listens on loopback addresses only",
            ));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tasks = TaskTracker::new();
        let routes = router(Service {
            sessions: self.sessions,
            access: Arc::new(self.access),
            audit: self.audit,
            clock: Arc::clone(&self.clock),
            options: self.options,
            tasks: tasks.clone(),
        });
        let (stop, stopped) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, routes, stopped, self.clock));
        Ok(ServerHandle {
            address,
            stop,
            accepting,
            tasks,
        })
    }
}

/// A server that listens on an address of this machine. It accepts requests until [`ServerHandle::shut_down`]. Dropping the
/// handle ends it too, without waiting for the accepted requests.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
    tasks: TaskTracker,
}

impl ServerHandle {
    /// The address on which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no further requests, and waits until the accepted ones are finished.
    pub async fn shut_down(self) {
        // Without a receiver the task that accepts has failed, so it accepts nothing either.
        self.stop.send_replace(true);
        drop(self.accepting.await);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Accepts connections until the server is stopped.
async fn accept(
    listener: TcpListener,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
) {
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&free).acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, routes.clone());
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    let _permit = permit;
                    // A client may close its connection at any time.
                    drop(connection.await);
                });
            }
            Err(_) => clock.sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = clock.sleep(SHUTDOWN_TIMEOUT) => {}
    }
}

/// Serves the requests of one connection.
fn connection(
    stream: TcpStream,
    routes: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
}

//! Routes and answers requests.

use super::access::Access;
use super::audit::{AuditLog, AuditRecord};
use super::body::{self, Refusal};
use super::lock_info::{self, LockInfo};
use super::{HEALTH, HttpOptions};
use crate::session::{LockId, SessionError, Sessions};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use state_core::{Clock, StackName};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

/// How many large states are received and recorded at the same time: each of them is in memory.
const LARGE_UPLOADS: usize = 4;

/// How many small states are recorded at the same time.
const SMALL_UPLOADS: usize = 16;

/// The longest body of a small state, in bytes. All connections together hold 64 MiB of them.
const SMALL: usize = 256 << 10;

/// Longest method in an audit record, in characters.
const MAX_METHOD: usize = 16;

/// The parts of a server that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) sessions: Sessions,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: AuditLog,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: HttpOptions,
    /// Requests whose work has begun, which a shutdown finishes.
    pub(crate) tasks: TaskTracker,
}

/// The states that may be in memory at the same time.
#[derive(Clone, Debug)]
struct Uploads {
    large: Arc<Semaphore>,
    /// Taken only after a state has arrived: a slow client never has one.
    small: Arc<Semaphore>,
}

/// The routes of the protocol.
pub(crate) fn router(service: Service) -> Router {
    Router::new()
        .route("/v1/state/{project}/{stack}", any(answer))
        .route(HEALTH, get(|| async { "ok\n" }))
        .layer(Extension(Uploads {
            large: Arc::new(Semaphore::new(LARGE_UPLOADS)),
            small: Arc::new(Semaphore::new(SMALL_UPLOADS)),
        }))
        .with_state(service)
}

/// The answer to a request, and the parts of its audit record.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    bytes: usize,
    revision: Option<String>,
    reason: Option<String>,
}

impl Answer {
    const fn ok() -> Self {
        Self {
            status: StatusCode::OK,
            body: Vec::new(),
            bytes: 0,
            revision: None,
            reason: None,
        }
    }

    fn refused(status: StatusCode, reason: String) -> Self {
        Self {
            status,
            body: format!("{reason}\n").into_bytes(),
            reason: Some(reason),
            ..Self::ok()
        }
    }

    fn of_error(error: &SessionError, stack: &StackName) -> Self {
        let status = match error {
            SessionError::Held(_) => StatusCode::LOCKED,
            SessionError::Conflict(_) => StatusCode::CONFLICT,
            SessionError::Invalid(_) => StatusCode::BAD_REQUEST,
            SessionError::Missing(_) => StatusCode::NOT_FOUND,
            SessionError::Unusable(_) => StatusCode::UNPROCESSABLE_ENTITY,
            SessionError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let answer = Self::refused(status, error.to_string());
        match error {
            SessionError::Held(owner) => Self {
                body: LockInfo::of(owner, &stack.short()).to_json(),
                ..answer
            },
            _ => answer,
        }
    }
}

impl From<Refusal> for Answer {
    fn from((status, reason): Refusal) -> Self {
        Self::refused(status, reason)
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body).into_response();
        let is_json = self.reason.is_none() || self.status == StatusCode::LOCKED;
        let kind = match is_json {
            true => "application/json",
            false => "text/plain; charset=utf-8",
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        // A state contains secrets, which no proxy may keep.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"statectl\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Answers a request to a stack, and writes its audit record.
async fn answer(
    State(service): State<Service>,
    Extension(uploads): Extension<Uploads>,
    Path((project, stack)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    request: Request<Body>,
) -> Response {
    let begun = service.clock.elapsed();
    let (parts, body) = request.into_parts();
    let user = service.access.user(&parts.headers).map(str::to_owned);
    let name = StackName::new(&project, &stack);
    let mut lock_id = query.as_deref().and_then(lock_of_query);
    let answer = match (&user, &name) {
        // Before anything else of the request is used.
        (None, _) => Answer::refused(
            StatusCode::UNAUTHORIZED,
            "the credentials are missing or wrong".to_owned(),
        ),
        (_, Err(error)) => Answer::refused(StatusCode::BAD_REQUEST, error.to_string()),
        (Some(_), Ok(name)) => {
            let call = Call {
                service: &service,
                uploads,
                name,
                headers: &parts.headers,
                lock_id: &mut lock_id,
            };
            let answered = call.answer(&parts.method, body).await;
            answered.unwrap_or_else(|refused| refused)
        }
    };
    let took = service.clock.elapsed().saturating_sub(begun);
    service.audit.write(&AuditRecord {
        time: service.clock.now(),
        stack: name.ok().filter(|_| user.is_some()).map(|name| name.to_string()),
        user,
        method: parts.method.as_str().chars().take(MAX_METHOD).collect(),
        lock_id: lock_id
            .and_then(|id| LockId::new(&id).ok())
            .map(|id| id.to_string()),
        status: answer.status.as_u16(),
        bytes: answer.bytes,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        revision: answer.revision.clone(),
        reason: answer.reason.clone(),
    });
    answer.into_response()
}

/// The id of the lock in a query. Terraform's ids need no escapes, and an id with escapes matches no lock.
fn lock_of_query(query: &str) -> Option<String> {
    let mut fields = query.split('&');
    fields
        .find_map(|field| field.strip_prefix("ID="))
        .map(str::to_owned)
}

/// An authorized request to a stack.
struct Call<'a> {
    service: &'a Service,
    uploads: Uploads,
    name: &'a StackName,
    headers: &'a HeaderMap,
    lock_id: &'a mut Option<String>,
}

impl Call<'_> {
    async fn answer(self, method: &Method, body: Body) -> Result<Answer, Answer> {
        match method.as_str() {
            "GET" => self.get().await,
            "POST" => self.post(body).await,
            "LOCK" => self.lock(body).await,
            "UNLOCK" => self.unlock(body).await,
            "DELETE" => self.delete().await,
            _ => Err(Answer::refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "the methods are GET, POST, LOCK, UNLOCK and DELETE".to_owned(),
            )),
        }
    }

    /// Runs the work of a request as a task of its own: it ends even if the client closes the connection, which drops the
    /// future of the request.
    async fn finished<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
    ) -> Result<T, Answer> {
        match self.service.tasks.spawn(work).await {
            Ok(done) => done.map_err(|error| Answer::of_error(&error, self.name)),
            Err(_) => Err(Answer::refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the request failed in the server".to_owned(),
            )),
        }
    }

    async fn receive(&self, body: Body, limit: usize) -> Result<Vec<u8>, Answer> {
        Ok(body::receive(self.headers, body, limit, &self.service.options).await?)
    }

    /// Receives a state, and a permit to hold it in memory.
    async fn upload(&self, body: Body) -> Result<(OwnedSemaphorePermit, Vec<u8>), Answer> {
        if body::announced(self.headers).is_some_and(|length| length <= SMALL) {
            let state = self
                .receive(body, SMALL.min(self.service.options.max_body))
                .await?;
            return Ok((self.permit(&self.uploads.small).await?, state));
        }
        let permit = self.permit(&self.uploads.large).await?;
        Ok((permit, self.receive(body, self.service.options.max_body).await?))
    }

    async fn permit(&self, uploads: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Answer> {
        let permit = Arc::clone(uploads).acquire_owned();
        let permit = tokio::time::timeout(self.service.options.body_timeout, permit).await;
        // The semaphore is never closed.
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            let reason = "too many states are received at the moment: try again".to_owned();
            Answer::refused(StatusCode::SERVICE_UNAVAILABLE, reason)
        })
    }

    fn id_of_query(&self) -> Result<Option<LockId>, Answer> {
        let id = self.lock_id.as_deref().filter(|id| !id.is_empty());
        let id = id.map(LockId::new).transpose();
        id.map_err(|error| Answer::of_error(&error, self.name))
    }

    async fn get(self) -> Result<Answer, Answer> {
        let (sessions, name) = (self.service.sessions.clone(), self.name.clone());
        let state = self.finished(async move { sessions.read(&name).await }).await?;
        Ok(match state {
            Some(body) => Answer {
                bytes: body.len(),
                body,
                ..Answer::ok()
            },
            None => Answer {
                status: StatusCode::NOT_FOUND,
                ..Answer::ok()
            },
        })
    }

    async fn post(self, body: Body) -> Result<Answer, Answer> {
        let id = self.id_of_query()?;
        let (permit, state) = self.upload(body).await?;
        let bytes = state.len();
        let (sessions, name) = (self.service.sessions.clone(), self.name.clone());
        let work = async move {
            // The state is in memory until the task ends, which may be after the end of the connection.
            let _permit = permit;
            sessions.write(&name, id.as_ref(), state).await
        };
        let written = self.finished(work).await?;
        Ok(Answer {
            bytes,
            revision: written
                .revision
                .filter(|_| written.is_new)
                .map(|revision| revision.to_string()),
            ..Answer::ok()
        })
    }

    async fn lock(self, body: Body) -> Result<Answer, Answer> {
        let body = self.receive(body, lock_info::MAX_BYTES).await?;
        let now = self.service.clock.now();
        let request = LockInfo::parse(&body).and_then(|info| info.request(now));
        let request = request.map_err(|error| Answer::of_error(&error, self.name))?;
        *self.lock_id = Some(request.id.to_string());
        let (sessions, name) = (self.service.sessions.clone(), self.name.clone());
        self.finished(async move { sessions.lock(&name, &request).await })
            .await?;
        Ok(Answer::ok())
    }

    async fn unlock(self, body: Body) -> Result<Answer, Answer> {
        let body = self.receive(body, lock_info::MAX_BYTES).await?;
        // `terraform force-unlock` sends no body, and doesn't send the id that its user typed.
        let id = match body.is_empty() {
            true => None,
            false => {
                let id = LockInfo::parse(&body).and_then(|info| info.id());
                Some(id.map_err(|error| Answer::of_error(&error, self.name))?)
            }
        };
        *self.lock_id = id.as_ref().map(ToString::to_string);
        let (sessions, name) = (self.service.sessions.clone(), self.name.clone());
        let freed = self
            .finished(async move { sessions.unlock(&name, id.as_ref()).await })
            .await?;
        if let Some(freed) = freed {
            *self.lock_id = Some(freed.id);
        }
        Ok(Answer::ok())
    }

    async fn delete(self) -> Result<Answer, Answer> {
        let id = self.id_of_query()?;
        let (sessions, name) = (self.service.sessions.clone(), self.name.clone());
        self.finished(async move { sessions.remove(&name, id.as_ref()).await })
            .await?;
        Ok(Answer::ok())
    }
}

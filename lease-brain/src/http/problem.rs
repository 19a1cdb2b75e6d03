//! How an error is answered.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use lease_shared::{InvalidName, StoreError, in_full};
use serde::de::DeserializeOwned;

use crate::api::Problem;

/// How long a caller may take over its body.
const BODY: Duration = Duration::from_secs(10);

/// A call that was not done.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    problem: Problem,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self {
            status,
            problem: Problem { code, message },
        }
    }

    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, Problem::FORBIDDEN, message)
    }

    pub(crate) fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(crate) fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Problem::DRAINING,
            "this pod is shutting down: ask another",
        )
    }

    pub(crate) fn unknown() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Problem::UNKNOWN,
            "this pod has not read the store yet, so it knows nothing: ask again soon",
        )
    }

    /// Whether it was done is unknown.
    pub(crate) fn unavailable(error: &(dyn std::error::Error + 'static)) -> Self {
        let code = Problem::UNAVAILABLE;
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, in_full(error))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::unavailable(&error)
    }
}

impl From<InvalidName> for Refusal {
    fn from(error: InvalidName) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            Problem::BAD_REQUEST,
            error.to_string(),
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.problem)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// A JSON body, or a refusal that says what is wrong with it.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let read = Json::<T>::from_request(request, state);
        match tokio::time::timeout(BODY, read).await {
            Ok(Ok(Json(body))) => Ok(Self(body)),
            Ok(Err(rejection)) => Err(refused(&rejection)),
            Err(_) => Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                Problem::BAD_REQUEST,
                "the body did not come in time",
            )),
        }
    }
}

fn refused(rejection: &JsonRejection) -> Refusal {
    Refusal::new(
        rejection.status(),
        Problem::BAD_REQUEST,
        rejection.body_text(),
    )
}

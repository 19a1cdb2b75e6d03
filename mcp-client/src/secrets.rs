//! What must not be shown, though a server or a child says it.

use std::borrow::Cow;

use futures_util::StreamExt;
use http::HeaderValue;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use sse_stream::Sse;

use crate::wire::{Events, HttpError};

/// Shorter values would hide words that happen to hold them.
const SHORTEST: usize = 6;

/// The least of a value that is hidden where a text was cut in the middle of it.
const PART: usize = 8;

/// Values that were given to a server or a child, for as long as its answer is waited for.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Each line of each of these.
    pub(crate) fn of_variables<'a>(values: impl IntoIterator<Item = &'a String>) -> Self {
        let lines = values.into_iter().flat_map(|value| value.lines());
        Self::new(lines.map(str::to_owned))
    }

    /// Each of these, and the credentials after a scheme; and the session's id, which is all that some servers ask for.
    pub(crate) fn of_request<'a>(
        headers: impl IntoIterator<Item = &'a HeaderValue>,
        session: Option<&str>,
    ) -> Self {
        let headers = headers
            .into_iter()
            .filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        let values = headers.flat_map(|value| {
            let credentials = value.split_once(' ').map(|(_, credentials)| credentials);
            [Some(value), credentials].into_iter().flatten()
        });
        Self::new(values.chain(session).map(str::to_owned))
    }

    /// These and one more.
    pub(crate) fn and(self, value: Option<&str>) -> Self {
        Self::new(self.0.into_iter().chain(value.map(str::to_owned)))
    }

    fn new(values: impl Iterator<Item = String>) -> Self {
        let mut values: Vec<_> = values.filter(|value| value.len() >= SHORTEST).collect();
        // One may hold another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// `text` without them.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            text = text.replace(value, "…");
            let part = (PART..value.len()).rev().find(|length| {
                value
                    .get(..*length)
                    .is_some_and(|part| text.ends_with(part))
            });
            if let Some(length) = part {
                text.truncate(text.len() - length);
                text.push('…');
            }
        }
        text
    }

    /// A failure whose words do not hold them.
    pub(crate) fn hide_in_failure(
        &self,
        failure: StreamableHttpError<HttpError>,
    ) -> StreamableHttpError<HttpError> {
        use StreamableHttpError as E;
        match failure {
            E::UnexpectedServerResponse(text) => {
                E::UnexpectedServerResponse(self.hide(&text).into())
            }
            E::UnexpectedContentType(Some(kind)) => {
                E::UnexpectedContentType(Some(self.hide(&kind)))
            }
            E::Deserialize(error) => {
                E::UnexpectedServerResponse(self.hide(&error.to_string()).into())
            }
            other => other,
        }
    }

    /// An answer whose errors do not hold them. What a tool gives is not touched.
    pub(crate) fn hide_in_answer(
        &self,
        answer: StreamableHttpPostResponse,
    ) -> StreamableHttpPostResponse {
        match answer {
            StreamableHttpPostResponse::Json(message, session) => {
                StreamableHttpPostResponse::Json(self.hide_in_message(message), session)
            }
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.hide_in_events(events), session)
            }
            other => other,
        }
    }

    /// Events whose errors do not hold them.
    pub(crate) fn hide_in_events(&self, events: Events) -> Events {
        let secrets = self.clone();
        let hidden = events.map(move |event| event.map(|event| secrets.hide_in_event(event)));
        hidden.boxed()
    }

    pub(crate) fn hide_in_message(&self, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        match message {
            JsonRpcMessage::Error(mut error) => {
                error.error.message = Cow::Owned(self.hide(&error.error.message));
                JsonRpcMessage::Error(error)
            }
            other => other,
        }
    }

    fn hide_in_event(&self, event: Sse) -> Sse {
        let error = event.data.as_deref().map(serde_json::from_str);
        let Some(Ok(error @ ServerJsonRpcMessage::Error(_))) = error else {
            return event;
        };
        let data = serde_json::to_string(&self.hide_in_message(error)).ok();
        Sse { data, ..event }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::Secrets;

    #[test]
    fn what_was_given_is_hidden() {
        let headers = ["Bearer hunter2-x", "short", "Basic abc"].map(HeaderValue::from_static);
        let secrets = Secrets::of_request(&headers, Some("session-1"));
        let check = |text, expected| assert_eq!(secrets.hide(text), expected);
        check("no hunter2-x, nor Bearer hunter2-x!", "no …, nor …!");
        check("short abc of session-1", "short abc of …");
        check("cut off: hunter2-", "cut off: …");
        check("Bearer", "Bearer");
    }

    #[test]
    fn each_line_of_a_variable_is_hidden() {
        let secrets = Secrets::of_variables(&["line one\nline two\n".to_owned()]);
        assert_eq!(secrets.hide("got line two"), "got …");
    }
}

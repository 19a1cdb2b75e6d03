//! What the messages of a session say, as far as this wire has to know.

use http::HeaderValue;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};

use super::HttpResult;

/// The reply to a request, as one that rmcp can tell whose it is; else the call would wait for ever.
///
/// An error without an id is what some servers answer when they do not know the session. One with an id that is not the
/// request's is still the reply to it, for it came as its answer.
pub(super) fn correlate(
    reply: StreamableHttpPostResponse,
    request: Option<RequestId>,
    attached: bool,
) -> HttpResult<StreamableHttpPostResponse> {
    match (reply, request) {
        (StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session), Some(id)) => {
            if error.id.is_none() && attached {
                return Err(StreamableHttpError::SessionExpired);
            }
            let reply = ServerJsonRpcMessage::error(error.error, Some(id));
            Ok(StreamableHttpPostResponse::Json(reply, session))
        }
        (reply, _) => Ok(reply),
    }
}

/// The version that an answer to `initialize` names.
pub(super) fn agreed_version(answer: &ServerJsonRpcMessage) -> Option<HeaderValue> {
    match answer {
        JsonRpcMessage::Response(answer) => match &answer.result {
            ServerResult::InitializeResult(result) => {
                HeaderValue::from_str(result.protocol_version.as_str()).ok()
            }
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

pub(super) fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

pub(super) fn is_initialized(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Notification(notification)
        if matches!(notification.notification, ClientNotification::InitializedNotification(_)))
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
    use rmcp::transport::streamable_http_client::{
        StreamableHttpError, StreamableHttpPostResponse,
    };

    use super::correlate;

    /// What becomes of an error with this id, as the direct answer to request 7.
    fn check(id: Option<RequestId>, attached: bool) -> Option<RequestId> {
        let error = ServerJsonRpcMessage::error(ErrorData::invalid_request("no", None), id);
        let reply = StreamableHttpPostResponse::Json(error, None);
        match correlate(reply, Some(RequestId::Number(7)), attached) {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _)) => error.id,
            Err(StreamableHttpError::SessionExpired) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_error_leaves_its_request_waiting() {
        let seven = Some(RequestId::Number(7));
        assert_eq!(check(seven.clone(), true), seven);
        assert_eq!(
            check(Some(RequestId::String("server-error".into())), true),
            seven
        );
        assert_eq!(check(None, true), None);
        assert_eq!(check(None, false), seven);
    }
}

//! What an administrator does about a lease: asks what it would do, does it, and is told what became of it.

use std::time::Duration;

use axum::extract::{Form, FromRequest, Path, Request};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use lease_shared::{HolderState, LeaseToken};
use maud::html;

use super::visit::{Visit, html};
use super::{confirm, state, token};
use crate::insights::revoke::{AT_ONCE, RevokeOutcome, RevokeResult, Seen, checked_reason};

/// How long a browser may take over its form.
const BODY: Duration = Duration::from_secs(10);

/// Asks whether one lease is to be ended.
pub(super) async fn confirm(visit: Visit, Path((_, text)): Path<(String, String)>) -> Response {
    let token = match token(&text) {
        Ok(token) => token,
        Err(shown) => return visit.answer(&shown),
    };
    match visit.insights.holder(&token).await {
        Ok(detail) => visit.aside(
            "Revoke a lease",
            confirm::one(&visit.here, &detail, visit.partly),
        ),
        Err(error) => visit.failed(&error),
    }
}

/// Asks whether several are.
pub(super) async fn confirm_all(visit: Visit, uri: Uri) -> Response {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let seen = match all_seen(query.map(|(name, value)| (name.into_owned(), value.into_owned()))) {
        Ok(seen) => seen,
        Err(problem) => return visit.answer(&state::bad_request(problem)),
    };
    let tokens: Vec<LeaseToken> = seen.into_iter().map(|seen| seen.token).collect();
    match visit.insights.holders_named(&tokens).await {
        Ok(found) => {
            let chosen = tokens.len();
            let asked = confirm::several_at_once(&visit.here, chosen, &found, visit.partly);
            visit.aside("Revoke several leases", asked)
        }
        Err(error) => visit.failed(&error),
    }
}

/// Ends one lease, if it is what was seen.
pub(super) async fn revoke(
    visit: Visit,
    Path((_, text)): Path<(String, String)>,
    request: Request,
) -> Response {
    let sent = match Sent::of(request).await {
        Ok(sent) => sent,
        Err(problem) => return visit.answer(&state::bad_request(problem)),
    };
    let [seen] = sent.seen.as_slice() else {
        return visit.answer(&state::bad_request("the form is about one lease"));
    };
    if seen.token.as_str() != text {
        return visit.answer(&state::bad_request("the form is about another lease"));
    }
    let subject = &visit.admin.subject;
    let result = visit
        .insights
        .revoke(seen, sent.reason.as_deref(), subject)
        .await;
    if result.outcome == RevokeOutcome::ReasonNeeded {
        return visit.answer(&state::not_done(&format!("{}.", result.words)));
    }
    done(&visit, &[result])
}

/// Ends several, each by itself.
pub(super) async fn revoke_all(visit: Visit, request: Request) -> Response {
    let sent = match Sent::of(request).await {
        Ok(sent) => sent,
        Err(problem) => return visit.answer(&state::bad_request(problem)),
    };
    let Some(reason) = sent.reason else {
        let problem =
            "To revoke several leases at once, give a reason, which their users can read.";
        return visit.answer(&state::not_done(problem));
    };
    let subject = &visit.admin.subject;
    let results = visit
        .insights
        .revoke_all(&sent.seen, &reason, subject)
        .await;
    done(&visit, &results)
}

/// Has a clean-up tried again now.
pub(super) async fn retry(visit: Visit, Path((_, text)): Path<(String, String)>) -> Response {
    let token = match token(&text) {
        Ok(token) => token,
        Err(shown) => return visit.answer(&shown),
    };
    let (class, words) = match visit.insights.retry(&token, &visit.admin.subject).await {
        Ok(true) => ("good", "it is tried again now"),
        Ok(false) => (
            "warn",
            "nothing was done: it is under way, or waits for its holder's end, or is not being revoked",
        ),
        Err(error) => return visit.failed(&error),
    };
    let said = html! { span.word.(class) { (words) } };
    match visit.partly {
        true => html(said),
        false => {
            let back = visit.here.at("/revocations");
            let main = html! { p { (said) } p { a href=(back) { "← all revocations" } } };
            visit.aside("Try a clean-up again", main)
        }
    }
}

/// The results: for htmx, which asked from the dialog, where it is to put them.
fn done(visit: &Visit, results: &[RevokeResult]) -> Response {
    if !visit.partly {
        let main = confirm::results_page(&visit.here, results);
        return visit.aside("What became of it", main);
    }
    let mut answer = html(confirm::results(results));
    let headers: &mut HeaderMap = answer.headers_mut();
    headers.insert("hx-retarget", HeaderValue::from_static("#outcome"));
    headers.insert("hx-reswap", HeaderValue::from_static("innerHTML"));
    answer
}

/// A form that was sent, after it was asked.
struct Sent {
    seen: Vec<Seen>,
    reason: Option<String>,
}

impl Sent {
    async fn of(request: Request) -> Result<Self, &'static str> {
        let reading = Form::<Vec<(String, String)>>::from_request(request, &());
        let read = tokio::time::timeout(BODY, reading).await;
        let Ok(Ok(Form(fields))) = read else {
            return Err("the form is too long, is none, or did not come in time");
        };
        let reason = fields.iter().find(|(name, _)| name == "reason");
        let reason = checked_reason(reason.map(|(_, value)| value.as_str()))
            .map_err(|_| "the reason must be at most 500 characters without control characters")?;
        let seen = all_seen(fields.into_iter())?;
        Ok(Self { seen, reason })
    }
}

/// What was seen of each lease that was chosen, at least one of them.
fn all_seen(fields: impl Iterator<Item = (String, String)>) -> Result<Vec<Seen>, &'static str> {
    let chosen = fields.filter(|(name, _)| name == "seen");
    let mut all: Vec<Seen> = Vec::new();
    for (_, value) in chosen {
        let seen = one_seen(&value).ok_or("a lease was not named by its token and its state")?;
        if all.iter().all(|known| known.token != seen.token) {
            all.push(seen);
        }
    }
    match all.len() {
        0 => Err("no lease was chosen: tick those that are to be revoked"),
        count if count > AT_ONCE => Err("at most 100 leases are revoked at once"),
        _ => Ok(all),
    }
}

fn one_seen(text: &str) -> Option<Seen> {
    let (token, state) = text.split_once('.')?;
    let states = [
        HolderState::Pending,
        HolderState::Held,
        HolderState::Revoking,
    ];
    Some(Seen {
        token: LeaseToken::new(token).ok()?,
        state: states.into_iter().find(|known| known.as_str() == state)?,
    })
}

#[test]
fn what_was_seen_is_a_token_and_a_state() {
    let token = "0".repeat(32);
    let fields = |values: &[&str]| {
        let field = |value: &&str| ("seen".to_owned(), (*value).to_owned());
        values.iter().map(field).collect::<Vec<_>>().into_iter()
    };
    let held = format!("{token}.HELD");
    let seen = all_seen(fields(&[&held, &held])).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].state, HolderState::Held);
    for bad in ["", ".", "x.HELD", &token, &format!("{token}.held")] {
        assert!(all_seen(fields(&[bad])).is_err(), "{bad}");
    }
    assert!(all_seen(fields(&[])).is_err());
}

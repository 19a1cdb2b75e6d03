//! The page of a tenant's administrators: its routes, and what each of them does.
//!
//! It is whole without scripts: plain links, a form that filters by GET, a page that asks before it ends a lease. With them,
//! htmx asks for the same addresses and is given the part that changes, and a stream says what is not as it was.

mod actions;
mod bar;
mod buttons;
mod confirm;
mod counters;
mod holder;
mod holders;
mod layout;
mod links;
mod list;
mod live;
mod overview;
mod person;
mod places;
mod revocations;
mod standing;
mod state;
mod stream;
mod tab;
mod time;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use lease_shared::LeaseToken;

use crate::brain::Site;
pub(crate) use places::Places;
use state::Shown;
use tab::Tab;
use visit::Visit;
pub(super) use visit::refused;

/// A hundred leases, each by its token and state, and a reason.
const FORM: usize = 16 * 1024;

pub(super) fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/insights", get(front))
        .route("/insights/{tenant}", get(overview))
        .route("/insights/{tenant}/holders", get(holders))
        .route("/insights/{tenant}/counters", get(counters))
        .route("/insights/{tenant}/revocations", get(revocations))
        .route("/insights/{tenant}/live/{tab}", get(live))
        .route("/insights/{tenant}/live/holders/{token}", get(live_holder))
        .route("/insights/{tenant}/holders/{token}", get(holder))
        .route(
            "/insights/{tenant}/holders/{token}/revoke",
            get(actions::confirm).post(actions::revoke),
        )
        .route(
            "/insights/{tenant}/holders/{token}/retry",
            post(actions::retry),
        )
        .route(
            "/insights/{tenant}/revoke",
            get(actions::confirm_all).post(actions::revoke_all),
        )
        .layer(DefaultBodyLimit::max(FORM))
}

/// Where somebody signs in who does not say in which tenant.
async fn front(State(site): State<Arc<Site>>) -> Response {
    match &site.access {
        Some(_) => state::front().page(None),
        None => refused(&super::NotAdmitted::NoAccess, None),
    }
}

async fn overview(visit: Visit) -> Response {
    visit.show(&Tab::Overview).await
}

async fn holders(visit: Visit, uri: Uri) -> Response {
    show(visit, Tab::named("holders", &uri)).await
}

async fn counters(visit: Visit, uri: Uri) -> Response {
    show(visit, Tab::named("counters", &uri)).await
}

async fn revocations(visit: Visit, uri: Uri) -> Response {
    show(visit, Tab::named("revocations", &uri)).await
}

async fn holder(visit: Visit, path: TokenPath) -> Response {
    show(visit, Tab::holder(&path.0.1)).await
}

async fn live(visit: Visit, Path((_, tab)): Path<(String, String)>, uri: Uri) -> Response {
    watch(visit, Tab::named(&tab, &uri))
}

async fn live_holder(visit: Visit, path: TokenPath) -> Response {
    watch(visit, Tab::holder(&path.0.1))
}

/// The tenant, which [`Visit`] has looked at, and the text that stands for a token.
type TokenPath = Path<(String, String)>;

async fn show(visit: Visit, tab: Result<Tab, Shown>) -> Response {
    match tab {
        Ok(tab) => visit.show(&tab).await,
        Err(shown) => visit.answer(&shown),
    }
}

fn watch(visit: Visit, tab: Result<Tab, Shown>) -> Response {
    match tab {
        Ok(tab) => stream::watch(visit, tab).into_response(),
        Err(shown) => visit.answer(&shown),
    }
}

/// A token as it stands in an address; what cannot be one is nobody's.
fn token(text: &str) -> Result<LeaseToken, Shown> {
    LeaseToken::new(text).map_err(|_| state::no_such_lease(text))
}

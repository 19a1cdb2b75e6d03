//! A request for a page, once it is known who makes it.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use lease_shared::in_full;
use maud::Markup;
use serde::Deserialize;

use super::super::admit::{Admin, NotAdmitted, admit};
use super::layout::{self, Content};
use super::links::Here;
use super::places::Places;
use super::state::{self, Shown};
use super::tab::Tab;
use crate::brain::Site;
use crate::http::Served;
use crate::insights::turns::{Turn, Turns};
use crate::insights::{Insights, InsightsError};

const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const HX_PUSH_URL: HeaderName = HeaderName::from_static("hx-push-url");

/// Who looks at a tenant's leases, or acts on them, and by what they are read.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) admin: Admin,
    pub(super) here: Here,
    pub(super) insights: Insights,
    pub(super) served: Served,
    /// Does htmx ask, for the part that changes?
    pub(super) partly: bool,
    /// To ask the store; a page that is kept up to date has none of its own.
    turn: Option<Turn>,
    site: Arc<Site>,
    /// What was shown to be let in.
    shown: Parts,
}

/// A path may have more than the tenant.
#[derive(Deserialize)]
struct Whose {
    tenant: String,
}

impl FromRequestParts<Arc<Site>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Response> {
        let partly = is_partly(&parts.headers);
        let path = Path::from_request_parts(parts, site).await;
        let Ok(Path(Whose { tenant })) = path else {
            let problem = "the tenant in the address is no text of UTF-8, percent-encoded";
            return Err(state::bad_request(problem).answer(None, partly));
        };
        let admin = admit(site, parts, &tenant).await;
        let admin = admin.map_err(|refusal| {
            let shown = state::refused(&refusal, Some(&tenant));
            shown.answer(None, partly)
        })?;
        let here = Here::new(admin.tenant.clone(), admin.subject.clone());
        // Before the store has been read, nothing is known.
        let Some(served) = site.served.get().cloned() else {
            return Err(state::store_down().answer(Some(&here), partly));
        };
        let Some(turn) = site.turns.of_request().await else {
            return Err(state::too_many().answer(Some(&here), partly));
        };
        let insights = served.insights(&tenant).map_err(|invalid| {
            let shown = state::bad_request(&invalid.to_string());
            shown.answer(Some(&here), partly)
        })?;
        Ok(Self {
            admin,
            here,
            insights,
            served,
            partly,
            turn: Some(turn),
            site: Arc::clone(site),
            shown: parts.clone(),
        })
    }
}

impl Visit {
    pub(super) fn give_up_turn(&mut self) {
        self.turn = None;
    }

    /// Who may ask the store for a page that is kept up to date: not in the turn of the request for it.
    pub(super) fn turns(&self) -> &Turns {
        &self.site.turns
    }

    /// How many pages this brain keeps up to date.
    pub(super) fn pages(&self) -> &Places {
        &self.site.pages
    }

    /// Would it be let in now? A token expires, and keys are withdrawn.
    pub(super) async fn admitted(&self) -> Result<Admin, NotAdmitted> {
        admit(&self.site, &self.shown, &self.admin.tenant).await
    }

    /// A view: the whole page, or what of it changes with the filters.
    pub(super) async fn show(&self, tab: &Tab) -> Response {
        let view = match tab.read(&self.insights, &self.here).await {
            Ok(view) => view,
            Err(error) => return self.failed(&error),
        };
        if self.partly {
            let mut answer = html(tab.shown(&self.here, &view));
            // What is empty in the form need not stand in the address.
            if let Ok(address) = HeaderValue::try_from(tab.address(&self.here)) {
                answer.headers_mut().insert(HX_PUSH_URL, address);
            }
            return answer;
        }
        let content = tab.content(&self.here, &view);
        html(layout::page(&self.here, &content, Some(&view)))
    }

    /// What is neither a view nor a problem: in the page's dialog, or a page of its own.
    pub(super) fn aside(&self, title: &str, main: Markup) -> Response {
        match self.partly {
            true => html(main),
            false => {
                let tab = Some("holders");
                let content = Content { title, tab, main };
                html(layout::page(&self.here, &content, None))
            }
        }
    }

    pub(super) fn failed(&self, error: &InsightsError) -> Response {
        self.answer(&shown(error))
    }

    pub(super) fn answer(&self, shown: &Shown) -> Response {
        shown.answer(Some(&self.here), self.partly)
    }
}

/// A page for somebody who is not let in.
pub(in crate::http::insights) fn refused(refusal: &NotAdmitted, tenant: Option<&str>) -> Response {
    state::refused(refusal, tenant).page(None)
}

fn shown(error: &InsightsError) -> Shown {
    match error {
        InsightsError::Param(invalid) => {
            state::bad_value(invalid.name, &invalid.value, &invalid.rule)
        }
        InsightsError::Name(invalid) => {
            state::bad_value(invalid.kind, &invalid.value, invalid.rule)
        }
        InsightsError::NoSuchLease(token) => state::no_such_lease(token.as_str()),
        InsightsError::Unreadable(_) => state::not_done(&format!("{error}.")),
        InsightsError::Store(_) | InsightsError::Pods(_) => {
            tracing::warn!(error = in_full(error), "a page could not be read");
            state::store_down()
        }
    }
}

fn is_partly(headers: &HeaderMap) -> bool {
    headers.get(HX_REQUEST).is_some_and(|said| said == "true")
}

pub(super) fn html(markup: Markup) -> Response {
    Html(markup.into_string()).into_response()
}

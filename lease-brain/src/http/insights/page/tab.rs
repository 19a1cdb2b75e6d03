//! The views of a tenant's leases: what each reads, and how it is shown, once and over again.

use std::borrow::Cow;

use axum::extract::Query;
use axum::http::Uri;
use futures_util::future::try_join;
use lease_shared::LeaseToken;
use maud::Markup;
use serde::de::DeserializeOwned;

use super::layout::{Content, tab_counts};
use super::links::Here;
use super::live::View;
use super::state::Shown;
use super::{counters, holder, holders, overview, revocations, state};
use crate::insights::answer::Counts;
use crate::insights::params::{CounterParams, HolderParams, Params, RevocationParams};
use crate::insights::{Insights, InsightsError};

/// What somebody looks at.
#[derive(Debug)]
pub(super) enum Tab {
    Overview,
    Holders(Box<HolderParams>),
    Counters(CounterParams),
    Revocations(RevocationParams),
    Holder(LeaseToken),
}

impl Tab {
    /// A view by its name, with the query that narrows it.
    pub(super) fn named(name: &str, uri: &Uri) -> Result<Self, Shown> {
        match name {
            "overview" => Ok(Self::Overview),
            "holders" => Ok(Self::Holders(Box::new(asked(uri)?))),
            "counters" => Ok(Self::Counters(asked(uri)?)),
            "revocations" => Ok(Self::Revocations(asked(uri)?)),
            _ => Err(state::no_such_page()),
        }
    }

    pub(super) fn holder(text: &str) -> Result<Self, Shown> {
        super::token(text).map(Self::Holder)
    }

    /// What narrows it, if it is a list.
    fn params(&self) -> Option<&dyn Params> {
        match self {
            Self::Holders(params) => Some(&**params),
            Self::Counters(params) => Some(params),
            Self::Revocations(params) => Some(params),
            Self::Overview | Self::Holder(_) => None,
        }
    }

    /// Is what is asked for possible at all?
    pub(super) fn check(&self) -> Result<(), InsightsError> {
        match self {
            Self::Holders(params) => drop(params.query()?),
            Self::Counters(params) => drop(params.query()?),
            Self::Revocations(params) => drop(params.query()?),
            Self::Overview | Self::Holder(_) => {}
        }
        if let Some(params) = self.params() {
            params.paged()?;
        }
        Ok(())
    }

    /// What it shows now.
    pub(super) async fn read(
        &self,
        insights: &Insights,
        here: &Here,
    ) -> Result<View, InsightsError> {
        let counts = insights.counts();
        let (mut view, counts) = match self {
            Self::Overview => {
                let overview = insights.overview().await?;
                let counts = Counts {
                    totals: overview.totals,
                    counters: overview.counters,
                };
                (overview::view(here, &overview), counts)
            }
            Self::Holders(params) => {
                let (listing, counts) = try_join(insights.holders(params), counts).await?;
                (holders::view(here, params, &listing), counts)
            }
            Self::Counters(params) => {
                let (listing, counts) = try_join(insights.counters(params), counts).await?;
                (counters::view(here, params, &listing), counts)
            }
            Self::Revocations(params) => {
                let (listing, counts) = try_join(insights.revocations(params), counts).await?;
                (revocations::view(here, params, &listing), counts)
            }
            Self::Holder(token) => {
                let (detail, counts) = try_join(insights.holder(token), counts).await?;
                (holder::view(here, &detail), counts)
            }
        };
        view.parts.extend(tab_counts(&counts));
        Ok(view)
    }

    /// The page around what it shows.
    pub(super) fn content(&self, here: &Here, view: &View) -> Content<'static> {
        let shown = self.shown(here, view);
        let (title, tab, main) = match self {
            Self::Overview => ("Overview", "", shown),
            Self::Holders(params) => ("Holders", "holders", holders::page(here, params, &shown)),
            Self::Counters(params) => {
                ("Counters", "counters", counters::page(here, params, &shown))
            }
            Self::Revocations(params) => (
                "Revocations",
                "revocations",
                revocations::page(here, params, &shown),
            ),
            Self::Holder(_) => ("One lease", "holders", shown),
        };
        let tab = Some(tab);
        Content { title, tab, main }
    }

    /// What changes when other filters are asked for, or by itself.
    pub(super) fn shown(&self, here: &Here, view: &View) -> Markup {
        let inner = match self {
            Self::Overview => overview::shown(here, view),
            Self::Holders(params) => holders::shown(here, params, view),
            Self::Counters(_) => counters::shown(view),
            Self::Revocations(_) => revocations::shown(view),
            Self::Holder(_) => holder::shown(here, view),
        };
        let paged = self.params().and_then(|params| params.paged().ok());
        maud::html! {
            div #view data-live=(self.live(here)) data-now=[view.now.as_deref()]
                data-swept=[view.swept_seconds] data-per-page=[paged.map(|paged| paged.per_page)] { (inner) }
        }
    }

    /// Its own address, without what is empty.
    pub(super) fn address(&self, here: &Here) -> String {
        match self {
            Self::Overview => here.at(""),
            _ => here.asked(&self.place(), &self.query()),
        }
    }

    /// Where its changes are to be had.
    fn live(&self, here: &Here) -> String {
        here.asked(&format!("/live{}", self.place()), &self.query())
    }

    fn place(&self) -> Cow<'static, str> {
        match self {
            Self::Overview => "/overview".into(),
            Self::Holders(_) => "/holders".into(),
            Self::Counters(_) => "/counters".into(),
            Self::Revocations(_) => "/revocations".into(),
            Self::Holder(token) => format!("/holders/{token}").into(),
        }
    }

    fn query(&self) -> String {
        self.params().map(Params::to_url_query).unwrap_or_default()
    }
}

fn asked<T: DeserializeOwned>(uri: &Uri) -> Result<T, Shown> {
    match Query::try_from_uri(uri) {
        Ok(Query(params)) => Ok(params),
        Err(rejection) => Err(state::bad_request(&rejection.body_text())),
    }
}

#[test]
fn address_and_live_address_differ_by_where_they_are() {
    let here = Here::new("acme".to_owned(), "ada".to_owned());
    let uri = "/x?user=ada&page=2&sort=".parse().unwrap();
    let token = "0".repeat(32);
    for (tab, address, live) in [
        (Tab::Overview, String::new(), "/live/overview".to_owned()),
        (
            Tab::named("holders", &uri).unwrap(),
            "/holders?user=ada&page=2".to_owned(),
            "/live/holders?user=ada&page=2".to_owned(),
        ),
        (
            Tab::holder(&token).unwrap(),
            format!("/holders/{token}"),
            format!("/live/holders/{token}"),
        ),
    ] {
        assert_eq!(tab.address(&here), here.at(&address));
        assert_eq!(tab.live(&here), here.at(&live));
    }
}

//! The page as a person sees and uses it, in a real browser.

mod accessible;
mod bulk;
mod changed;
mod expired;
mod filter;
mod hostile;
mod live;
mod partial;
mod phone;
mod revoke;
mod screenshots;
mod sign_in;
mod stale;
mod still;
mod tenants;

use std::ops::Deref;

use lease_shared::{Lease, LeaseRef, LeaseRequest, LeaseToken, LeaseType, Tenancy};
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};
use test_browser::fantoccini::actions::{
    InputSource, KeyAction, KeyActions, MouseActions, PointerAction,
};
use test_browser::fantoccini::key::Key;
use test_browser::{Browser, Page, Tools, View};
use test_mongo::eventually;

use super::World;
use super::tokens::token;
use crate::fleet::{BENCH, SOON};

/// A lease of many slots in each tenant.
const POOL: &str = "pool";

/// A browser of its own at a brain's pages.
struct Desk {
    page: Page,
    _browser: Browser,
    base: String,
}

impl Deref for Desk {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl Desk {
    async fn new(tools: &Tools, world: &World, view: View) -> Self {
        let browser = Browser::start(tools).await.unwrap();
        let page = browser.open(view).await.unwrap();
        let base = world.pod.url("");
        Self {
            page,
            _browser: browser,
            base,
        }
    }

    /// Where `ada` is signed in as an administrator of `acme`.
    async fn of_ada(tools: &Tools, world: &World) -> Self {
        let desk = Self::new(tools, world, View::DESKTOP).await;
        // At the page of a tenant, the form would come with a refusal.
        desk.sign_in("/insights", &token(json!({ "sub": "ada" })))
            .await;
        desk.until_text("h1", "Overview").await.unwrap();
        desk
    }

    async fn goto(&self, place: &str) {
        let address = format!("{}{place}", self.base);
        self.page.goto(&address).await.unwrap();
    }

    /// Shows a token at this page's form.
    async fn sign_in(&self, place: &str, token: &str) {
        self.goto(place).await;
        self.fill("#token", token).await.unwrap();
        self.click("#sign-in button").await.unwrap();
    }

    /// What a script gets that says this.
    async fn js(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        let answer = self.execute(&script, Vec::new()).await;
        answer.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until a script says yes to this. While a page is being replaced, it says nothing.
    async fn until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        let waited = eventually(expression, SOON, async || {
            Ok(self.execute(&script, Vec::new()).await? == true)
        });
        if let Err(error) = waited.await {
            panic!(
                "{error:#}; the page says {}",
                self.text("body").await.unwrap()
            );
        }
    }

    /// Waits until the badge says that what is shown is what is.
    async fn live(&self) {
        self.until("document.querySelector('#badge')?.textContent === 'live'")
            .await;
    }

    /// Goes there, and waits until it is live.
    async fn watch(&self, place: &str) {
        self.goto(place).await;
        self.live().await;
    }

    /// Waits until the table has these rows and no others, in this order.
    async fn until_rows(&self, rows: &[&LeaseToken]) {
        let rows: Vec<_> = rows.iter().map(|token| token.as_str()).collect();
        let expected = json!(rows);
        let shown =
            "[...document.querySelectorAll('[data-list=rows] > tr')].map(it => it.dataset.key)";
        self.until(&format!("JSON.stringify({shown}) === '{expected}'"))
            .await;
    }

    async fn press(&self, key: Key) {
        let value = char::from(key);
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        self.perform_actions(keys).await.unwrap();
    }

    /// Presses Tab until a script says that the focus is where it is to be.
    async fn tab_until(&self, expression: &str) {
        for _ in 0..120 {
            if self.js(expression).await == true {
                return;
            }
            self.press(Key::Tab).await;
        }
        panic!("not reached by keyboard: {expression}");
    }

    async fn point_at(&self, x: f64, y: f64) {
        let moved = MouseActions::new("mouse".to_owned()).then(PointerAction::MoveTo {
            duration: None,
            x,
            y,
        });
        self.perform_actions(moved).await.unwrap();
    }

    /// Has the pointer where nothing is, so that it holds no list still.
    async fn point_away(&self) {
        self.point_at(1.0, 1.0).await;
    }

    /// Asks for a lease's end, and waits for the dialog.
    async fn ask_to_revoke(&self, token: &LeaseToken) {
        self.click(&format!("{} [data-f=revoke]", row(token)))
            .await
            .unwrap();
        self.until("document.querySelector('#dialog').open").await;
    }

    /// The console has no errors.
    async fn is_quiet(&self) {
        assert_eq!(self.console_errors().await.unwrap(), []);
    }

    /// The console has no errors but refusals, which were asked for.
    async fn is_quiet_but_for_refusals(&self) {
        let mut errors = self.console_errors().await.unwrap();
        // htmx writes those of its own requests there as well.
        let by_htmx = [
            "htmx:sendError",
            "htmx:afterRequest",
            "Response Status Error",
        ];
        let is_by_htmx = |text: &str| by_htmx.iter().any(|known| text.contains(known));
        errors.retain(|error| !error.is_refusal() && !is_by_htmx(&error.message));
        assert_eq!(errors, []);
    }
}

/// The row of a lease.
fn row(token: &LeaseToken) -> String {
    format!("tr[data-key='{token}']")
}

/// A lease as it is asked for, by a process that is not the brain.
#[derive(Clone)]
struct Wanted<'a> {
    tenant: &'a str,
    project: &'a str,
    user: &'a str,
    lease: &'a str,
    reference: &'a str,
    payload: Document,
    /// Held by the brain's pod, or by nobody's.
    in_pod: bool,
}

impl<'a> Wanted<'a> {
    /// The bench, of which each user has one.
    fn of(user: &'a str) -> Self {
        Self {
            tenant: "acme",
            project: "thesis",
            user,
            lease: BENCH,
            reference: "job-17",
            payload: doc! {},
            in_pod: false,
        }
    }
}

impl World {
    async fn take(&self, wanted: Wanted<'_>) -> Lease {
        let pod = wanted.in_pod.then(|| self.pod.id.clone());
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("webhook").unwrap())
            .lease(LeaseRef::named(wanted.lease).unwrap())
            .tenancy(Tenancy::new(wanted.tenant, wanted.project, wanted.user).unwrap())
            .holder_ref(wanted.reference)
            .maybe_pod(pod)
            .payload(wanted.payload)
            .build();
        self.fleet.leases.acquire(request).await.unwrap()
    }

    /// That many leases of the pool, one after the other, so that each is newer than the one before.
    async fn take_of_pool(&self, count: usize) -> Vec<Lease> {
        let body = "levels: { tenant: 200 }\nttlSeconds: 600";
        self.fleet.define(POOL, body).await;
        let mut leases = Vec::new();
        for number in 0..count {
            let reference = format!("job-{number}");
            let wanted = Wanted {
                lease: POOL,
                reference: &reference,
                ..Wanted::of("grace")
            };
            leases.push(self.take(wanted).await);
        }
        leases
    }
}

fn token_of(lease: &Lease) -> LeaseToken {
    lease.token().expect("it is held").clone()
}

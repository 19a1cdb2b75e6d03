//! What is shown instead of leases: why not, and what can be done about it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::super::NotAdmitted;
use super::layout::{self, Content};
use super::links::Here;
use super::person::name;
use super::visit;

/// One such state. The word of its kind stands in `data-state`.
#[derive(Debug)]
pub(super) struct Shown {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    body: Markup,
}

impl Shown {
    /// For whoever asks: a part of a page, or a whole one.
    pub(super) fn answer(&self, here: Option<&Here>, partly: bool) -> Response {
        match partly {
            // An address that leads to a refusal is not worth to be kept.
            true => {
                let unkept = [("hx-push-url", "false")];
                (self.status, unkept, visit::html(self.part())).into_response()
            }
            false => self.page(here),
        }
    }

    pub(super) fn page(&self, here: Option<&Here>) -> Response {
        let content = Content {
            title: self.title,
            tab: None,
            main: html! { section.state data-state=(self.kind) { (self.body) } },
        };
        let page = match here {
            Some(here) => layout::page(here, &content, None),
            None => layout::bare(&content),
        };
        (self.status, visit::html(page)).into_response()
    }

    fn part(&self) -> Markup {
        html! {
            section.state data-state=(self.kind) role="alert" { h2 { (self.title) } (self.body) }
        }
    }
}

/// Where one signs in who has not said in which tenant.
pub(super) fn front() -> Shown {
    Shown {
        status: StatusCode::OK,
        kind: "sign-in",
        title: "Sign in",
        body: html! {
            p { "Here the administrators of a tenant see who holds its leases, and end those that should not be held." }
            (sign_in(None))
        },
    }
}

pub(super) fn refused(refusal: &NotAdmitted, tenant: Option<&str>) -> Shown {
    let again = html! { (sign_in(tenant)) };
    let (kind, title, body) = match refusal {
        NotAdmitted::NoAccess => {
            let body = html! {
                p { "This brain verifies no tokens, so it shows no tenant's leases." }
                p { "Its operator can start it with " code { "--jwt-secret-file" } " or " code { "--jwt-jwks" } "." }
            };
            ("no-access", "Not set up", body)
        }
        NotAdmitted::NotSignedIn => ("not-signed-in", "Sign in", again),
        NotAdmitted::Expired => {
            let body = html! {
                p { "Your sign-in has expired." }
                (again)
            };
            ("expired", "Sign in again", body)
        }
        NotAdmitted::Invalid(problem) => {
            let body = html! {
                p role="alert" { strong { "Not accepted:" } " " (problem) "." }
                (again)
            };
            ("token-invalid", "Sign in", body)
        }
        NotAdmitted::Forbidden { needed, tenant } => {
            let body = html! {
                p {
                    "You are signed in, but not as an administrator here: this needs a token with the role "
                    strong { (needed) } " in the tenant " strong { (name(tenant)) } "."
                }
                (sign_in(Some(tenant)))
            };
            ("forbidden", "Not yours to see", body)
        }
        NotAdmitted::CrossSite => {
            let body = html! {
                p { "The request came from another site's page, or did not say from which, so nothing was done." }
                p { "If you meant it, do it on the page itself." }
            };
            ("cross-site", "Not done", body)
        }
        NotAdmitted::Unavailable => {
            let body = html! {
                p { "Your token cannot be verified now, because the keys of the identity provider cannot be had." }
                p { "Try again soon. Leases go on as they are." }
            };
            ("keys-unavailable", "Cannot verify you now", body)
        }
    };
    Shown {
        status: refusal.status(),
        kind,
        title,
        body,
    }
}

pub(super) fn store_down() -> Shown {
    Shown {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "store-down",
        title: "The store does not answer",
        body: html! {
            p { "Who holds what is not known now. Until the store is back, acquires are failing closed: nobody gets a lease, and those who hold one learn that it cannot be checked." }
            p { a href="" { "Try again" } }
        },
    }
}

/// It may answer soon.
pub(super) fn too_many() -> Shown {
    Shown {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "too-many",
        title: "Too much at once",
        body: html! {
            p { "This brain is asked too much at once, so nothing was done." }
            p { a href="" { "Try again" } }
        },
    }
}

pub(super) fn no_such_lease(token: &str) -> Shown {
    Shown {
        status: StatusCode::NOT_FOUND,
        kind: "no-such-lease",
        title: "No such lease",
        body: html! {
            p { "There is no lease " code { (name(token)) } " in this tenant: it was released, or revoked and cleaned up, or never was." }
        },
    }
}

pub(super) fn no_such_page() -> Shown {
    Shown {
        status: StatusCode::NOT_FOUND,
        kind: "no-such-page",
        title: "No such page",
        body: html! { p { "There is nothing at this address." } },
    }
}

/// A value that cannot be taken, and the cure.
pub(super) fn bad_value(field: &str, value: &str, rule: &str) -> Shown {
    let problem = html! {
        p { strong { (field) } " " code { (name(value)) } " " (rule) "." }
    };
    bad(problem)
}

pub(super) fn bad_request(problem: &str) -> Shown {
    bad(html! { p { (problem) } })
}

fn bad(body: Markup) -> Shown {
    Shown {
        status: StatusCode::BAD_REQUEST,
        kind: "bad-request",
        title: "That cannot be looked for",
        body,
    }
}

/// What a holder's state or a missing reason stands in the way of.
pub(super) fn not_done(problem: &str) -> Shown {
    Shown {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        kind: "not-done",
        title: "Not done",
        body: html! { p { (problem) } },
    }
}

fn sign_in(tenant: Option<&str>) -> Markup {
    let place = match tenant {
        Some(tenant) => format!("{}/login", super::super::page_of(tenant)),
        None => "/insights".to_owned(),
    };
    html! {
        form.sign-in #sign-in method="post" action=(place) {
            label for="token" { "Token" }
            input #token name="token" type="password" required autocomplete="off" spellcheck="false"
                maxlength="8192" aria-describedby="token-hint";
            p.quiet #token-hint {
                "A signed token (JWT) with the role ADMIN"
                @if let Some(tenant) = tenant { " in the tenant " (name(tenant)) }
                ". It is kept in a cookie that no script can read, until it expires."
            }
            button.main type="submit" { "Sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_text() {
        let tenant = "\"><script>alert(1)</script>";
        let refusal = NotAdmitted::Forbidden {
            needed: "ADMIN",
            tenant: tenant.to_owned(),
        };
        for shown in [
            refused(&refusal, Some(tenant)),
            refused(&NotAdmitted::NotSignedIn, Some(tenant)),
            bad_value("resource", tenant, tenant),
            bad_request(tenant),
            no_such_lease(tenant),
        ] {
            let html = shown.part().into_string();
            assert!(!html.contains("<script"), "{html}");
        }
    }
}

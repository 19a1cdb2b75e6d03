//! Signing in and out, as a browser does it.

use cookie::{Cookie, SameSite};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;

use super::tokens::{MARK, token};
use super::{World, is, judged, with_form};

const LOGIN: &str = "/insights/acme/login";

fn place(answer: &Response) -> &str {
    answer.headers()["location"].to_str().unwrap()
}

fn cookie(answer: &Response) -> Cookie<'static> {
    let set = answer.headers()["set-cookie"].to_str().unwrap();
    Cookie::parse(set.to_owned()).unwrap()
}

#[track_caller]
fn assert_signed_in(answer: &Response, name: &str, secure: bool) {
    assert_eq!(answer.status(), 303, "{answer:?}");
    assert_eq!(place(answer), "/insights/acme");
    let cookie = cookie(answer);
    assert_eq!(cookie.name(), name);
    assert_eq!(cookie.secure().unwrap_or(false), secure);
    assert_eq!(cookie.http_only(), Some(true));
    assert_eq!(cookie.same_site(), Some(SameSite::Strict));
    assert_eq!(cookie.path(), Some("/"));
    assert_eq!(cookie.domain(), None);
    let age = cookie.max_age().unwrap().whole_seconds();
    assert!((540..=600).contains(&age), "{age}");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_kept_in_a_cookie_that_only_this_site_has() {
    let world = World::with_secret(&[]).await;
    let good = token(json!({}));
    let login = || world.form(LOGIN, &good);
    let local = "lease_insights";
    let secure = "__Host-lease";
    type Change = fn(RequestBuilder) -> RequestBuilder;
    // As a proxy sends it that calls itself the host, and does not say that it is one.
    let by_proxy: Change = |it| {
        it.header("host", "localhost:7311")
            .header("origin", "https://lease.example")
    };
    let answer = by_proxy(login()).send().await.unwrap();
    assert_signed_in(&answer, secure, true);
    let rows: [(Change, &str, bool); 6] = [
        (|it| it, local, false),
        (|it| it.header("host", "localhost:7311"), local, false),
        (|it| it.header("host", "[::1]:7311"), local, false),
        (|it| it.header("host", "lease.example"), secure, true),
        (|it| it.header("x-forwarded-proto", "https"), secure, true),
        (|it| it.header("forwarded", "proto=https"), secure, true),
    ];
    for (change, name, is_secure) in rows {
        let answer = change(login()).send().await.unwrap();
        assert_signed_in(&answer, name, is_secure);
        assert_eq!(cookie(&answer).value(), good);
        // One that was given without TLS counts on this machine alone, and no other name at all.
        for (sent, expected) in [(local, name == local), (secure, true), ("lease", false)] {
            let call = world.ask(Method::GET, super::ME);
            let call = change(call).header("cookie", format!("{sent}={good}"));
            let expected = match expected {
                true => is(200, "OK"),
                false => is(401, "NOT_SIGNED_IN"),
            };
            assert_eq!(judged(call.send().await.unwrap()).await, expected, "{sent}");
        }
    }
    let anywhere = world.form("/insights", &format!(" {good}\r\n"));
    assert_signed_in(&anywhere.send().await.unwrap(), local, false);
    assert!(!world.pod.log().contains(&good[..40]));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_in_comes_to_the_page_of_the_tokens_tenant() {
    let world = World::with_secret(&[]).await;
    for (tenant, page) in [
        ("other", "/insights/other"),
        ("a/b", "/insights/a%2Fb"),
        ("//evil.example", "/insights/%2F%2Fevil.example"),
        ("<script>", "/insights/%3Cscript%3E"),
        ("é", "/insights/%C3%A9"),
    ] {
        let login = world.form(LOGIN, &token(json!({ "tenant": tenant })));
        let answer = login.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), place(&answer)), (303, page));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn header_counts_before_the_cookie() {
    let world = World::with_secret(&[]).await;
    let good = format!("lease_insights={}", token(json!({})));
    let call = || world.ask(Method::GET, super::ME).header("cookie", &good);
    let bad = call().bearer_auth("bad").send().await.unwrap();
    assert_eq!(judged(bad).await, is(401, "TOKEN_INVALID"));
    let proxy = call()
        .basic_auth("proxy", Some("word"))
        .send()
        .await
        .unwrap();
    assert_eq!(judged(proxy).await, is(200, "OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn form_of_another_site_signs_nobody_in_or_out() {
    let world = World::with_secret(&[]).await;
    let own = world.pod.url("");
    let token = token(json!({}));
    let rows: [(&[(&str, &str)], bool); 9] = [
        (&[("sec-fetch-site", "same-origin")], true),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "cross-site")], false),
        (&[("sec-fetch-site", "none")], false),
        (&[("sec-fetch-site", "cross-site"), ("origin", &own)], false),
        (&[("origin", &own)], true),
        (&[("origin", "null")], false),
        (&[("origin", "http://127.0.0.1:1")], false),
        (&[], false),
    ];
    for (headers, done) in rows {
        for path in ["/insights", LOGIN, "/insights/acme/logout"] {
            let call = with_form(world.ask(Method::POST, path), &token);
            let call = headers
                .iter()
                .fold(call, |call, (name, value)| call.header(*name, *value));
            let answer = call.send().await.unwrap();
            let expected = if done { 303 } else { 403 };
            assert_eq!(answer.status(), expected, "{path} {headers:?}");
            assert_eq!(answer.headers().contains_key("set-cookie"), done);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_has_the_browser_forget() {
    let world = World::with_secret(&[]).await;
    for (host, name) in [
        ("localhost", "lease_insights"),
        ("lease.example", "__Host-lease"),
    ] {
        let call = world
            .form("/insights/a%2Fb/logout", "")
            .header("host", host);
        let answer = call.send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), place(&answer)),
            (303, "/insights/a%2Fb")
        );
        let cookie = cookie(&answer);
        assert_eq!((cookie.name(), cookie.value()), (name, ""));
        assert!(cookie.max_age().unwrap().is_zero());
        assert_eq!(cookie.path(), Some("/"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn form_that_is_none_is_refused_in_words() {
    let world = World::with_secret(&[]).await;
    let long = token(json!({ "more": MARK.repeat(150) }));
    assert!((4096..8192).contains(&long.len()));
    let form = "application/x-www-form-urlencoded";
    for (kind, body) in [
        (form, String::new()),
        (form, "token=".to_owned()),
        (form, "other=1".to_owned()),
        (form, "token=a&token=b".to_owned()),
        (form, format!("token={}", "x".repeat(16 * 1024))),
        (form, format!("token={long}")),
        ("application/json", json!({ "token": long }).to_string()),
    ] {
        let call = world.ask(Method::POST, LOGIN);
        let call = call
            .header("sec-fetch-site", "same-origin")
            .header("content-type", kind)
            .body(body);
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 401);
        assert!(!answer.headers().contains_key("set-cookie"));
        assert!(!answer.text().await.unwrap().is_empty());
    }
    // Browsers would drop it; programs keep none.
    assert_eq!(world.tried(&long).await, is(200, "OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_is_told_to_trust_nothing_but_this_site() {
    let world = World::with_secret(&[]).await;
    let good = token(json!({}));
    let calls = [
        world.form(LOGIN, &good),
        world.form(LOGIN, "bad"),
        world.form("/insights", "bad"),
        world.ask(Method::POST, LOGIN),
        world.form("/insights/acme/logout", ""),
        world.ask(Method::GET, super::ME),
    ];
    for call in calls {
        let answer = call.send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap();
        let policy = header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|it| it == rule), "{rule}: {policy}");
        }
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("cache-control"), "no-store");
    }
}

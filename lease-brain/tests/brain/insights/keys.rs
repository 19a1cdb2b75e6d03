//! Keys of an identity provider that change while a brain runs.

use std::path::Path;

use futures_util::future::join_all;
use jsonwebtoken::{Algorithm, Header};
use serde_json::json;
use test_mongo::eventually;

use super::provider::{Answer, Provider};
use super::stream::Events;
use super::tokens::{Signer, part, set, token};
use super::{World, is};
use crate::fleet::{Fleet, SOON};

/// Puts a file in the place of another, as those do who change what is read meanwhile.
fn put(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}

/// A brain with the keys in this file.
async fn with_file(text: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks");
    put(&path, text);
    let jwks = format!("--jwt-jwks={}", path.display());
    World::start(Fleet::new().await, folder, &[&jwks]).await
}

async fn with_url(url: &str) -> World {
    World::start(
        Fleet::new().await,
        tempfile::tempdir().unwrap(),
        &["--jwt-jwks", url],
    )
    .await
}

async fn becomes(world: &World, token: &str, expected: (u16, String)) {
    eventually("the keys are looked at", SOON, async || {
        Ok(world.tried(token).await == expected)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_key_verifies_its_own_tokens_alone() {
    use Algorithm::{ES256, ES384, EdDSA, PS384, RS256};
    let kinds = [
        ("rs", RS256),
        ("ps", PS384),
        ("p256", ES256),
        ("p384", ES384),
        ("ed", EdDSA),
    ];
    let signers = kinds.map(|(id, algorithm)| Signer::new(id, algorithm));
    let world = with_file(&set(&signers.each_ref())).await;
    for signer in &signers {
        assert_eq!(
            world.tried(&signer.token()).await,
            is(200, "OK"),
            "{}",
            signer.id
        );
        let unnamed = signer.token_of(&Header::new(signer.algorithm));
        assert_eq!(world.tried(&unnamed).await, is(200, "OK"), "{}", signer.id);
        let stranger = Signer::new(signer.id, signer.algorithm);
        let same_key = matches!(signer.algorithm, RS256 | PS384);
        let expected = if same_key {
            is(200, "OK")
        } else {
            is(401, "TOKEN_INVALID")
        };
        assert_eq!(
            world.tried(&stranger.token()).await,
            expected,
            "{}",
            signer.id
        );
        let misnamed = signer.token_of(&Header {
            kid: Some("p521".to_owned()),
            ..Header::new(signer.algorithm)
        });
        assert_eq!(
            world.tried(&misnamed).await,
            is(401, "TOKEN_INVALID"),
            "{}",
            signer.id
        );
    }
    assert_eq!(
        world.tried(&token(json!({}))).await,
        is(401, "TOKEN_INVALID")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn key_that_is_none_is_in_no_others_way() {
    let good = Signer::new("good", Algorithm::ES256);
    let mut named = good.jwk();
    named.as_object_mut().unwrap().remove("kid");
    // No point of the curve.
    let one = part([1; 32]);
    let bad = json!({ "kty": "EC", "crv": "P-256", "x": one, "y": one });
    let keys = json!({ "keys": [bad, named] });
    let world = with_file(&keys.to_string()).await;
    let token = good.token_of(&Header::new(Algorithm::ES256));
    assert_eq!(world.tried(&token).await, is(200, "OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn page_that_is_open_ends_with_the_key_that_let_it_in() {
    let old = Signer::new("old", Algorithm::ES256);
    let new = Signer::new("new", Algorithm::ES256);
    let world = with_file(&set(&[&old])).await;
    let mut events = Events::of(&world, "overview", &old.token()).await;
    assert_eq!(events.next().await.unwrap().0, "update");
    put(&world.folder.path().join("jwks"), &set(&[&new]));
    loop {
        match events.next().await.expect("a last word").0.as_str() {
            "expired" => break,
            kind => assert!(["beat", "update"].contains(&kind), "{kind}"),
        }
    }
    assert!(events.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_changes_changes_the_keys_of_a_running_brain() {
    let old = Signer::new("old", Algorithm::ES256);
    let new = Signer::new("new", Algorithm::EdDSA);
    let world = with_file(&set(&[&old])).await;
    let path = world.folder.path().join("jwks");
    assert_eq!(world.tried(&old.token()).await, is(200, "OK"));
    assert_eq!(world.tried(&new.token()).await, is(401, "TOKEN_INVALID"));
    put(&path, &set(&[&old, &new]));
    becomes(&world, &new.token(), is(200, "OK")).await;
    assert_eq!(world.tried(&old.token()).await, is(200, "OK"));
    put(&path, &set(&[&new]));
    becomes(&world, &old.token(), is(401, "TOKEN_INVALID")).await;
    assert_eq!(world.tried(&new.token()).await, is(200, "OK"));
    // What cannot be read takes nobody's keys away, and is said.
    put(&path, "<html>");
    eventually("the problem is said", SOON, async || {
        assert_eq!(world.tried(&new.token()).await, is(200, "OK"));
        Ok(world.pod.log().contains("is no JWKS"))
    })
    .await
    .unwrap();
    put(&path, r#"{"keys":[]}"#);
    becomes(&world, &new.token(), is(401, "TOKEN_INVALID")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_at_a_url_are_fetched_when_needed_and_not_by_everybodys_wish() {
    let old = Signer::new("old", Algorithm::ES256);
    let new = Signer::new("new", Algorithm::ES256);
    let provider = Provider::new(Answer::Set(set(&[&old]))).await;
    let world = with_url(&provider.url).await;
    assert_eq!(provider.asked(), 0);
    // All who come at once wait for one fetch.
    let good = old.token();
    for tried in join_all((0..20).map(|_| world.tried(&good))).await {
        assert_eq!(tried, is(200, "OK"));
    }
    assert_eq!(provider.asked(), 1);
    provider.answer(Answer::Set(set(&[&new])));
    assert_eq!(world.tried(&new.token()).await, is(200, "OK"));
    assert_eq!(provider.asked(), 2);
    assert_eq!(world.tried(&old.token()).await, is(401, "TOKEN_INVALID"));
    let strange: Vec<String> = (0..100)
        .map(|number| {
            new.token_of(&Header {
                kid: Some(format!("strange-{number}")),
                ..Header::new(Algorithm::ES256)
            })
        })
        .collect();
    for tried in join_all(strange.iter().map(|token| world.tried(token))).await {
        assert_eq!(tried, is(401, "TOKEN_INVALID"));
    }
    // One more, had half a minute gone by meanwhile.
    assert!(provider.asked() <= 3, "{}", provider.asked());
    // The last good set goes on.
    provider.answer(Answer::Status(500));
    assert_eq!(world.tried(&new.token()).await, is(200, "OK"));
    drop(provider);
    assert_eq!(world.tried(&new.token()).await, is(200, "OK"));
    assert_eq!(world.tried(&strange[0]).await, is(401, "TOKEN_INVALID"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_while_there_have_been_no_keys() {
    let signer = Signer::new("only", Algorithm::ES256);
    let provider = Provider::new(Answer::Status(500)).await;
    let elsewhere = Provider::new(Answer::Set(set(&[&signer]))).await;
    let world = with_url(&provider.url).await;
    let unavailable = is(503, "KEYS_UNAVAILABLE");
    assert_eq!(world.tried(&signer.token()).await, unavailable);
    let login = world.form("/insights/acme/login", &signer.token());
    assert_eq!(login.send().await.unwrap().status(), 503);
    for answer in [
        Answer::Redirect(elsewhere.url.clone()),
        // Good but for its length.
        Answer::Set(format!("{}{}", set(&[&signer]), " ".repeat(1024 * 1024))),
        Answer::Set("<html>".to_owned()),
    ] {
        let before = provider.asked();
        provider.answer(answer);
        eventually("it is asked again", SOON, async || {
            assert_eq!(world.tried(&signer.token()).await, unavailable);
            Ok(provider.asked() > before)
        })
        .await
        .unwrap();
    }
    assert_eq!(elsewhere.asked(), 0);
    provider.answer(Answer::Set(set(&[&signer])));
    becomes(&world, &signer.token(), is(200, "OK")).await;
}

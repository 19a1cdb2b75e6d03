use jsonwebtoken::Algorithm;

use super::*;

const OLD: &str = "the-old-key";
const NEW: &str = "the-new-key";

fn set(id: &str) -> Vec<u8> {
    let x = "A".repeat(43);
    format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{x}"}}]}}"#).into_bytes()
}

fn by(id: &str) -> Signed<'_> {
    Signed {
        key_id: Some(id),
        algorithm: Algorithm::EdDSA,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn set_is_looked_at_again_when_it_is_old_and_for_unknown_keys_now_and_then() {
    let (begin, mut state) = (Instant::now(), State::default());
    let due = |state: &State, id, after| state.is_due(&by(id), begin + seconds(after), Pace::URL);
    assert!(due(&state, OLD, 0));
    state.begin(&by(OLD), begin);
    assert_eq!(state.end(Ok(set(OLD)), begin), None);
    assert!(!due(&state, OLD, 0));
    // The first unknown key is looked for at once; of a storm of them, one every half minute.
    assert!(due(&state, NEW, 1));
    state.begin(&by(NEW), begin + seconds(1));
    assert_eq!(state.end(Ok(set(OLD)), begin + seconds(1)), None);
    assert!(!due(&state, NEW, 2));
    assert!(!due(&state, NEW, 30));
    assert!(due(&state, NEW, 31));
    assert!(!due(&state, OLD, 600));
    assert!(due(&state, OLD, 601));
}

#[test]
fn last_good_set_holds_for_an_hour_and_no_longer() {
    let (begin, mut state) = (Instant::now(), State::default());
    state.end(Ok(set(OLD)), begin);
    let later = begin + seconds(600);
    for answer in [Err("away".to_owned()), Ok(b"<html>".to_vec())] {
        state.end(answer, later);
        assert!(state.keys(later).unwrap().knows(&by(OLD)));
        assert!(!state.is_due(&by(OLD), later + seconds(1), Pace::URL));
        assert!(state.is_due(&by(OLD), later + seconds(2), Pace::URL));
    }
    assert!(state.keys(begin + LAST - seconds(1)).is_some());
    assert!(state.keys(begin + LAST).is_none());
    state.end(Ok(set(NEW)), begin + LAST);
    let keys = state.keys(begin + LAST).unwrap();
    assert!(keys.knows(&by(NEW)) && !keys.knows(&by(OLD)));
}

#[test]
fn failure_is_said_once_until_it_is_over() {
    let (now, mut state) = (Instant::now(), State::default());
    let away = || Err("away".to_owned());
    assert_eq!(state.end(away(), now).as_deref(), Some("away"));
    assert_eq!(state.end(away(), now), None);
    assert!(state.keys(now).is_none());
    assert_eq!(state.end(Ok(set(OLD)), now), None);
    assert_eq!(state.end(away(), now).as_deref(), Some("away"));
}

#[test]
fn set_without_keys_takes_all_of_them_back() {
    let (now, mut state) = (Instant::now(), State::default());
    state.end(Ok(set(OLD)), now);
    state.end(Ok(br#"{"keys":[]}"#.to_vec()), now);
    assert!(state.keys(now).unwrap().is_empty());
}

#[test]
fn keys_come_from_a_file_or_by_a_way_on_which_nobody_changes_them() {
    for url in [
        "https://idp.example/jwks",
        "HTTPS://idp.example/jwks?tenant=a",
        "http://localhost:8080/jwks",
        "http://127.0.0.1/jwks",
        "http://[::1]:1/jwks",
    ] {
        assert!(matches!(Place::parse(url), Ok(Place::Url { .. })), "{url}");
    }
    for (url, problem) in [
        ("http://idp.example/jwks", "must be an https URL"),
        ("http://127.0.0.1.example/jwks", "must be an https URL"),
        (
            "http://127.0.0.1@idp.example/jwks",
            "must be a URL without a user",
        ),
        (
            "https://user:word@idp.example/jwks",
            "must be a URL without a user",
        ),
        ("ftp://idp.example/jwks", "must be a path, or an https URL"),
        ("file:///etc/jwks", "must be a path, or an https URL"),
        ("https://", "is no URL"),
    ] {
        let refused = Place::parse(url).unwrap_err().to_string();
        assert!(refused.starts_with(problem), "{url}: {refused}");
        assert!(!refused.contains("word@"), "{refused}");
    }
    let place = Place::parse("https://idp.example/jwks?secret=7").unwrap();
    assert_eq!(place.to_string(), "https://idp.example/jwks");
    let path = "/run/jwks.json";
    assert!(
        matches!(Place::parse(path), Ok(Place::File(file)) if file == std::path::Path::new(path))
    );
}

#[test]
fn file_without_usable_keys_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks");
    let refused = || {
        JwksSource::new(path.to_str().unwrap())
            .unwrap_err()
            .to_string()
    };
    let shown = path.display();
    assert!(refused().starts_with(&format!("{shown} cannot be read (No such file")));
    for (text, problem) in [
        ("secret", "is no JWKS: a JSON object with a list `keys`"),
        (r#"{"keys":[]}"#, "has no key that can be used"),
        (
            r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#,
            "has no key that can be used; key 1: an RSA key must have 2048 to 8192 bits",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(refused(), format!("{shown} {problem}"));
    }
    std::fs::write(&path, vec![b' '; 1024 * 1024 + 1]).unwrap();
    assert_eq!(
        refused(),
        format!(
            "{shown} cannot be read (more than 1 MiB): name the file with the provider's public keys"
        )
    );
}

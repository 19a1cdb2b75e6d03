//! Which hosts are this machine.

use std::net::IpAddr;

/// Whether a host, as it stands in a URL without its port, is this machine and needs no encryption on the way.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[test]
fn only_this_machine_is_loopback() {
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "[::1]"] {
        assert!(is_loopback(host), "{host}");
    }
    for host in [
        "",
        "localhost.example",
        "127.0.0.1.example",
        "128.0.0.1",
        "0.0.0.0",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "lease",
    ] {
        assert!(!is_loopback(host), "{host}");
    }
}

//! Where the clean-up of a revoked lease happens.

/// The pod that held a lease, as the pod that cleans up sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose<'a> {
    /// Nobody's: the lease had no pod.
    NoPod,
    /// This pod's own.
    Own,
    /// Another's, which is alive and can be reached there.
    Living(&'a str),
    /// Another's, which is dead or unknown.
    Dead,
}

/// Where a clean-up is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// The handler runs in this pod.
    Here,
    /// The handler is to run in the pod at this address.
    Peer(&'a str),
    /// There is nothing to clean up: the resource died with its pod.
    Nothing,
}

/// What to do when the pod that holds the resource was asked, and did not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The handler runs in this pod instead.
    Here,
    /// The resource is in that pod, and still in use: it is asked again until it has done it, or is dead.
    AskAgain,
}

/// The dispatch matrix.
pub(crate) fn route(whose: Whose<'_>, pod_bound: bool) -> Route<'_> {
    match (whose, pod_bound) {
        (Whose::NoPod | Whose::Own, _) => Route::Here,
        (Whose::Living(endpoint), _) => Route::Peer(endpoint),
        (Whose::Dead, true) => Route::Nothing,
        (Whose::Dead, false) => Route::Here,
    }
}

/// What follows when a living pod was asked in vain.
pub(crate) fn refused(pod_bound: bool) -> Refused {
    match pod_bound {
        true => Refused::AskAgain,
        false => Refused::Here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_matrix() {
        let peer = Route::Peer("http://b");
        let rows = [
            (Whose::NoPod, false, Route::Here),
            (Whose::Own, false, Route::Here),
            (Whose::Own, true, Route::Here),
            (Whose::Living("http://b"), false, peer),
            (Whose::Living("http://b"), true, peer),
            (Whose::Dead, true, Route::Nothing),
            (Whose::Dead, false, Route::Here),
        ];
        for (whose, pod_bound, expected) in rows {
            assert_eq!(
                route(whose, pod_bound),
                expected,
                "{whose:?}, pod-bound: {pod_bound}"
            );
        }
        assert_eq!(refused(false), Refused::Here);
        assert_eq!(refused(true), Refused::AskAgain);
    }
}

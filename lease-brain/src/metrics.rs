//! The names and labels of the brain's own metrics; those of leases are in `lease_shared::metrics`.

use lease_shared::metrics::REAP_PANICS;
use metrics::{counter, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Clean-ups by handlers, by `type` and `outcome` (`ok`, `error`).
pub const HANDLER: &str = "vance.lease.handler";
/// DELETEs for revoked sessions at MCP servers, by `outcome` (`gone`, `unknown`, `omitted` where the tool points elsewhere now).
pub const MCP_DELETE: &str = "vance.mcp.delete";
/// Leases by `state` (`pending`, `held`, `revoking`, `failed`). Not a number while the store has not been read.
pub const HOLDERS: &str = "vance.lease.holders";
/// Revocations by `state` (`waiting`, `failed`). An alert on `failed` above 0 is worth having.
pub const REVOCATIONS: &str = "vance.lease.revocations";
/// Pods by `state` (`alive`, `dead`, `stopped`). Those that are gone are shown for an hour.
pub const PODS: &str = "vance.lease.pods";
/// Seconds since the last sweep of this pod ended that could look at everything; since the pod's start before the first.
pub const SWEEP_AGE: &str = "vance.lease.sweep.age.seconds";
/// What sweeps could not do, for the next to try again.
pub const SWEEP_FAILED: &str = "vance.lease.sweep.failed";
/// Sweeps and reconciles that ended in a panic.
pub const SWEEP_PANICS: &str = "vance.lease.sweep.panics";
/// Sweeps in which leases of dead pods were left alone, for too many pods looked dead at once.
pub const SWEEP_HELD_BACK: &str = "vance.lease.sweep.held.back";
/// Counters that differed from their holders at the last reconcile.
pub const DRIFT: &str = "vance.lease.drift";

/// The upper bounds of the buckets of all histograms.
const SECONDS: [f64; 15] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 21_600.0,
    86_400.0,
];

/// Records the metrics of this process from now on, for [`BrainBuilder::metrics`](crate::brain::BrainBuilder::metrics)
/// to show. Histograms are in buckets, so that those of several pods can be added up. To be called once, by the binary.
///
/// # Errors
/// This process has a recorder already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("seconds".to_owned()), &SECONDS)?
        .install_recorder()?;
    // What is to alarm with its first time has to be there before: nothing has grown that began with one.
    for name in [SWEEP_FAILED, SWEEP_PANICS, SWEEP_HELD_BACK, REAP_PANICS] {
        counter!(name).increment(0);
    }
    Ok(handle)
}

pub(crate) fn handled(lease_type: &str, well: bool) {
    let outcome = if well { "ok" } else { "error" };
    counter!(HANDLER, "type" => lease_type.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn mcp_delete(outcome: &'static str) {
    counter!(MCP_DELETE, "outcome" => outcome).increment(1);
}

pub(crate) fn set(name: &'static str, state: &'static str, value: Option<u64>) {
    gauge!(name, "state" => state).set(value.map_or(f64::NAN, |value| value as f64));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The names of all metrics, as Prometheus shows them.
    fn names() -> BTreeSet<String> {
        let sources = [
            include_str!("metrics.rs"),
            include_str!("../../lease-shared/src/metrics.rs"),
        ];
        let lines = sources.iter().flat_map(|source| source.lines());
        lines
            .filter_map(|line| line.strip_prefix("pub const ")?.split('"').nth(1))
            .map(|name| name.replace('.', "_"))
            .collect()
    }

    /// The names that a text uses.
    fn used(text: &str) -> BTreeSet<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words
            .filter(|word| word.starts_with("vance_"))
            .map(|word| word.trim_end_matches("_bucket").to_owned())
            .collect()
    }

    #[test]
    fn every_metric_is_explained_to_operators() {
        assert!(names().len() > 15);
        assert_eq!(used(include_str!("../docs/metrics.md")), names());
    }

    #[test]
    fn alerts_are_about_what_there_is_and_each_says_what_to_do() {
        let rules = include_str!("../docs/alerts.yaml");
        assert!(used(rules).is_subset(&names()), "{:?}", used(rules));
        let rules: serde_yaml::Value = serde_yaml::from_str(rules).unwrap();
        let rules = rules["groups"][0]["rules"].as_sequence().unwrap().clone();
        assert!(rules.len() > 5);
        for rule in rules {
            for text in ["summary", "action"] {
                assert!(rule["annotations"][text].as_str().is_some(), "{rule:?}");
            }
            assert!(rule["expr"].as_str().unwrap().contains("vance_"));
        }
    }
}

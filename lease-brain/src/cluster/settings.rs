use std::collections::BTreeMap;
use std::time::Duration;

use humantime::format_duration;
use reqwest::Url;

/// How a pod shows itself to the others, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSettings {
    /// The cluster it belongs to. Node names are unique within one.
    pub cluster_id: String,
    /// The name that it keeps when it is started again.
    pub node_name: String,
    /// The URL at which the other pods reach it.
    pub endpoint: String,
    /// Whatever its operators want to see with it.
    pub labels: BTreeMap<String, String>,
    /// How often it says that it is there. Too small, and a large cluster writes of nothing else.
    pub heartbeat: Duration,
    /// After how long a silence the others take it for dead. Too small, and a pod that is merely slow loses its leases.
    pub stale: Duration,
}

/// A setting that cannot work, with the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {value:?} {cure}")]
pub struct InvalidPodSettings {
    /// Which one, for example `stale`.
    pub setting: &'static str,
    /// What it was set to, cut to 140 characters.
    pub value: String,
    /// What to set it to instead.
    pub cure: String,
}

impl InvalidPodSettings {
    fn new(setting: &'static str, value: &str, cure: impl Into<String>) -> Self {
        Self {
            setting,
            value: value.chars().take(140).collect(),
            cure: cure.into(),
        }
    }

    fn duration(setting: &'static str, value: Duration, cure: impl Into<String>) -> Self {
        Self::new(setting, &format_duration(value).to_string(), cure)
    }
}

/// More often than this, heartbeats are load and nothing else.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

/// After how long a row is removed by whoever comes by. No pod may promise to be silent for longer.
pub(super) const KEPT: Duration = Duration::from_secs(3600);

impl PodSettings {
    /// The cluster of those that name none.
    pub const CLUSTER_ID: &'static str = "default";
    /// How often a pod says that it is there, unless told otherwise.
    pub const HEARTBEAT: Duration = Duration::from_secs(10);
    /// After how long a silence a pod is taken for dead, unless told otherwise.
    pub const STALE: Duration = Duration::from_secs(30);

    /// A pod of this name that the others reach at this URL; the rest is as `brain` has it where nothing is said.
    ///
    /// The name is kept from one start to the next, and no other pod of the cluster has it meanwhile.
    pub fn new(node_name: impl Into<String>, endpoint: impl Into<String>) -> Self {
        Self {
            cluster_id: Self::CLUSTER_ID.to_owned(),
            node_name: node_name.into(),
            endpoint: endpoint.into(),
            labels: BTreeMap::new(),
            heartbeat: Self::HEARTBEAT,
            stale: Self::STALE,
        }
    }

    /// The same settings, if they can work.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn checked(self) -> Result<Self, InvalidPodSettings> {
        check_name("cluster-id", &self.cluster_id)?;
        check_name("node-name", &self.node_name)?;
        check_endpoint("endpoint", &self.endpoint)?;
        for (label, value) in &self.labels {
            check_name("labels", label)?;
            if !value.is_empty() {
                check_name("labels", value)?;
            }
        }
        self.check_durations()?;
        Ok(self)
    }

    fn check_durations(&self) -> Result<(), InvalidPodSettings> {
        let Self {
            heartbeat, stale, ..
        } = *self;
        if heartbeat < SHORTEST_HEARTBEAT {
            let cure = format!(
                "must be at least {}; 10s is usual",
                format_duration(SHORTEST_HEARTBEAT)
            );
            return Err(InvalidPodSettings::duration("heartbeat", heartbeat, cure));
        }
        if heartbeat > KEPT / 3 {
            let cure = "must be at most 20m, a third of what a pod may be silent for; 10s is usual";
            return Err(InvalidPodSettings::duration("heartbeat", heartbeat, cure));
        }
        let fewest = heartbeat * 3;
        if stale < fewest {
            let cure = format!(
                "must be at least three heartbeats of {}, so {} or more: one lost heartbeat is no death",
                format_duration(heartbeat),
                format_duration(fewest)
            );
            return Err(InvalidPodSettings::duration("stale", stale, cure));
        }
        if stale > KEPT {
            let cure = "must be at most 1h: a pod that was silent for so long is forgotten";
            return Err(InvalidPodSettings::duration("stale", stale, cure));
        }
        Ok(())
    }
}

fn check_name(setting: &'static str, name: &str) -> Result<(), InvalidPodSettings> {
    if (1..=128).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let cure = "must be 1 to 128 bytes without control characters";
    Err(InvalidPodSettings::new(setting, name, cure))
}

/// Checks the URL of a pod, and that nothing secret stands in it: everybody who lists the pods sees it.
///
/// # Errors
/// What is wrong with it, under the name of the setting.
pub fn check_endpoint(setting: &'static str, endpoint: &str) -> Result<(), InvalidPodSettings> {
    let usable = Url::parse(endpoint).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    let plain = endpoint.len() <= 512 && !endpoint.chars().any(|c| c.is_control() || c == ' ');
    if usable && plain {
        return Ok(());
    }
    let cure = "must be a URL at which the other pods reach this one, like http://10.0.0.7:7311";
    // Credentials are what it must not have, so they are not shown either.
    let shown = match endpoint.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => endpoint.to_owned(),
    };
    Err(InvalidPodSettings::new(setting, &shown, cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PodSettings {
        PodSettings {
            labels: BTreeMap::from([("zone".to_owned(), "b".to_owned())]),
            ..PodSettings::new("a", "http://10.0.0.7:7311")
        }
    }

    /// What is said of the settings so changed; nothing, if they can work.
    #[track_caller]
    fn check(expected: &str, change: impl FnOnce(&mut PodSettings)) {
        let mut settings = settings();
        change(&mut settings);
        let said = settings.checked().err().map(|error| error.to_string());
        assert_eq!(said.unwrap_or_default(), expected);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_the_cure() {
        let millis = Duration::from_millis;
        let seconds = Duration::from_secs;
        check("", |_| ());
        let cure = "must be at least 100ms; 10s is usual";
        for (heartbeat, shown) in [(0, "0s"), (99, "99ms")] {
            check(&format!("heartbeat {shown:?} {cure}"), |it| {
                it.heartbeat = millis(heartbeat)
            });
        }
        check("", |it| {
            it.heartbeat = millis(100);
            it.stale = millis(300);
        });
        let cure = "must be at most 20m, a third of what a pod may be silent for; 10s is usual";
        check(&format!("heartbeat \"20m 1s\" {cure}"), |it| {
            it.heartbeat = seconds(1201);
            it.stale = seconds(3603);
        });
        check("", |it| {
            it.heartbeat = seconds(1200);
            it.stale = seconds(3600);
        });
        let cure = "must be at least three heartbeats of 10s, so 30s or more: one lost heartbeat is no death";
        check(&format!("stale \"29s 999ms\" {cure}"), |it| {
            it.stale = millis(29_999)
        });
        check("", |it| it.stale = seconds(3600));
        let cure = "must be at most 1h: a pod that was silent for so long is forgotten";
        check(&format!("stale \"1h 1s\" {cure}"), |it| {
            it.stale = seconds(3601)
        });

        let cure = "must be 1 to 128 bytes without control characters";
        check(&format!("node-name \"\" {cure}"), |it| it.node_name.clear());
        check("", |it| it.node_name = "é".repeat(64));
        let long = "x".repeat(129);
        check(&format!("node-name {long:?} {cure}"), |it| {
            it.node_name.clone_from(&long)
        });
        check(&format!("cluster-id \"a\\0\" {cure}"), |it| {
            it.cluster_id = "a\0".to_owned()
        });
        check(&format!("labels \"\" {cure}"), |it| {
            it.labels.insert(String::new(), "x".to_owned());
        });
        check(&format!("labels \"\\n\" {cure}"), |it| {
            it.labels.insert("x".to_owned(), "\n".to_owned());
        });
        check("", |it| {
            it.labels.insert("x".to_owned(), String::new());
        });
    }

    #[test]
    fn endpoint_is_a_url_that_others_can_use_without_a_secret_in_it() {
        for good in [
            "http://10.0.0.7:7311",
            "https://brain.example/",
            "http://[::1]:1/lease",
        ] {
            check("", |it| it.endpoint = good.to_owned());
        }
        let cure =
            "must be a URL at which the other pods reach this one, like http://10.0.0.7:7311";
        for bad in [
            "",
            "10.0.0.7:7311",
            "ftp://a",
            "http://",
            "http://a?x=1",
            "http://a#x",
            "http://a b",
            "http://a\n",
        ] {
            check(&format!("endpoint {bad:?} {cure}"), |it| {
                it.endpoint = bad.to_owned()
            });
        }
        for secret in ["http://user:hunter2@a", "http://hunter2@a"] {
            check(&format!("endpoint \"…@a\" {cure}"), |it| {
                it.endpoint = secret.to_owned()
            });
        }
    }
}

//! A lease that was looked for, also one whose document is broken: it keeps its slot, so it must be possible to see and to
//! end it.

use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{
    AnyLease, BrokenLease, CleanupPhase, CleanupView, Filter, HolderState, LeaseToken, LeaseViews,
    Listed,
};
use mongodb::Database;
use serde::Serialize;

use super::pods::{with_pod, with_pods};
use crate::connection::asked;

/// A lease with what is known of its pod, or what can be read of one that is broken.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Found {
    Whole(Box<WithPod>),
    Broken(Box<BrokenLease>),
}

impl Found {
    pub(crate) async fn by_token(
        token: &LeaseToken,
        database: &Database,
    ) -> anyhow::Result<Option<Self>> {
        let views = LeaseViews::new(database.clone());
        Ok(match asked(views.any_holder(token).await)? {
            None => None,
            Some(AnyLease::Broken(lease)) => Some(Self::Broken(lease)),
            Some(AnyLease::Whole(holder)) => {
                Some(Self::Whole(Box::new(with_pod(*holder, database).await?)))
            }
        })
    }

    /// All that match, the broken ones last.
    pub(crate) async fn all(filter: &Filter, database: &Database) -> anyhow::Result<Listed<Self>> {
        let views = LeaseViews::new(database.clone());
        let listed = asked(views.any_holders(filter).await)?;
        let (mut whole, mut broken) = (Vec::new(), Vec::new());
        for lease in listed.entries {
            match lease {
                AnyLease::Whole(holder) => whole.push(*holder),
                AnyLease::Broken(lease) => broken.push(Self::Broken(lease)),
            }
        }
        let whole = with_pods(whole, database).await?.into_iter();
        let whole = whole.map(|lease| Self::Whole(Box::new(lease)));
        Ok(Listed {
            entries: whole.chain(broken).collect(),
            unreadable: listed.unreadable,
        })
    }

    pub(crate) fn token(&self) -> &LeaseToken {
        match self {
            Self::Whole(lease) => &lease.holder.token,
            Self::Broken(lease) => &lease.token,
        }
    }

    pub(crate) fn is_revoking(&self) -> bool {
        let state = match self {
            Self::Whole(lease) => Some(lease.holder.state),
            Self::Broken(lease) => lease.state,
        };
        state == Some(HolderState::Revoking)
    }

    pub(crate) fn is_failed(&self) -> bool {
        let phase = match self {
            Self::Whole(_) => self.cleanup().map(|cleanup| cleanup.phase),
            Self::Broken(lease) => lease.cleanup.as_ref().map(|cleanup| cleanup.phase),
        };
        phase == Some(CleanupPhase::Failed)
    }

    /// How far its clean-up is, if it can be read.
    pub(crate) fn cleanup(&self) -> Option<&CleanupView> {
        match self {
            Self::Whole(lease) => lease.holder.cleanup.as_ref(),
            Self::Broken(_) => None,
        }
    }

    pub(crate) fn next_try_in_seconds(&self) -> i64 {
        let seconds = match self {
            Self::Whole(_) => self.cleanup().map(|cleanup| cleanup.next_try_in_seconds),
            Self::Broken(lease) => lease.cleanup.as_ref().and_then(|it| it.next_try_in_seconds),
        };
        seconds.unwrap_or(0)
    }

    // The cells of tables.

    pub(crate) fn resource(&self) -> String {
        match self {
            Self::Whole(lease) => lease.holder.resource.clone(),
            Self::Broken(lease) => or_unknown(lease.resource.as_ref()),
        }
    }

    pub(crate) fn lease_type(&self) -> String {
        match self {
            Self::Whole(lease) => lease.holder.lease_type.clone(),
            Self::Broken(lease) => or_unknown(lease.lease_type.as_ref()),
        }
    }

    /// `tenant/project`.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Whole(lease) => format!("{}/{}", lease.holder.tenant, lease.holder.project),
            Self::Broken(lease) => {
                let [tenant, project] =
                    [&lease.tenant, &lease.project].map(|name| or_unknown(name.as_ref()));
                format!("{tenant}/{project}")
            }
        }
    }

    /// `tenant/project/user`.
    pub(crate) fn holder(&self) -> String {
        match self {
            Self::Whole(lease) => words::holder(&lease.holder),
            Self::Broken(lease) => format!("{}/{}", self.place(), or_unknown(lease.user.as_ref())),
        }
    }

    pub(crate) fn pod(&self) -> String {
        match self {
            Self::Whole(lease) => lease.pod_in_short(),
            Self::Broken(lease) => match &lease.pod {
                Some(pod) => pod.chars().take(8).collect(),
                None => "-".to_owned(),
            },
        }
    }

    pub(crate) fn reason(&self) -> String {
        let reason = match self {
            Self::Whole(lease) => lease
                .holder
                .revocation_reason
                .map(|reason| reason.as_str().to_owned()),
            Self::Broken(lease) => lease.revocation_reason.clone(),
        };
        reason.unwrap_or_else(|| "-".to_owned())
    }

    pub(crate) fn phase(&self) -> String {
        match self {
            Self::Whole(_) => self.cleanup().map(words::phase).unwrap_or_default(),
            Self::Broken(lease) => {
                let phase = lease.cleanup.as_ref().map(|cleanup| cleanup.phase.as_str());
                phase.unwrap_or_default().to_owned()
            }
        }
    }

    pub(crate) fn attempts(&self) -> String {
        let attempts = match self {
            Self::Whole(_) => self.cleanup().map(|cleanup| cleanup.attempts),
            Self::Broken(lease) => lease.cleanup.as_ref().and_then(|cleanup| cleanup.attempts),
        };
        attempts.map_or_else(String::new, |attempts| attempts.to_string())
    }

    pub(crate) fn next_try(&self) -> String {
        match self {
            Self::Whole(_) => self.cleanup().map(words::next_try).unwrap_or_default(),
            Self::Broken(_) => match self.next_try_in_seconds() {
                0 => "due".to_owned(),
                seconds => format!("in {}", words::seconds(seconds)),
            },
        }
    }

    /// Why its clean-up did not succeed. What is wrong with a document stands there, too.
    pub(crate) fn last_error(&self) -> String {
        match self {
            Self::Whole(_) => {
                let error = self
                    .cleanup()
                    .and_then(|cleanup| cleanup.last_error.clone());
                error.unwrap_or_else(|| "-".to_owned())
            }
            Self::Broken(lease) => {
                let unreadable = format!("unreadable: {}", lease.unreadable);
                let cleanup = lease.cleanup.as_ref();
                match cleanup.and_then(|cleanup| cleanup.last_error.as_ref()) {
                    Some(error) => format!("{unreadable}; last error: {error}"),
                    None => unreadable,
                }
            }
        }
    }

    /// What may go on when its slot has been given back although nothing was cleaned up.
    pub(crate) fn may_still_run(&self) -> String {
        match self {
            Self::Whole(lease) => words::may_still_run(lease),
            Self::Broken(lease) => match &lease.resource {
                Some(resource) => format!("its resource {resource} may still be in use"),
                None => "its resource may still be in use".to_owned(),
            },
        }
    }

    /// What its revocation does.
    pub(crate) fn dispatch(&self) -> String {
        match self {
            Self::Whole(lease) => words::dispatch(lease),
            Self::Broken(_) => "nothing, until its document is mended".to_owned(),
        }
    }
}

/// What ends a lease whose document is broken.
pub(crate) fn cure(lease: &BrokenLease) -> String {
    let token = &lease.token;
    match lease.state {
        Some(HolderState::Revoking) => format!("`lease cleanup abandon {token}` gives it up"),
        Some(HolderState::Held) => format!(
            "`lease revoke {token} --force` gives its slot back, `lease cleanup abandon {token}` then ends it"
        ),
        Some(HolderState::Pending) | None => {
            "its document in resource_lease_holders has to be mended, or removed, by hand"
                .to_owned()
        }
    }
}

fn or_unknown(name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| "?".to_owned())
}

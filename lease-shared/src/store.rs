//! The two collections behind every lease, one conditional command per function.
//!
//! Every write that matters asks for a majority and the journal, every read goes to the primary whatever the URI says
//! (tokens read from one node and holders from a lagging one over-admit), and all times are the server's. A time-out or
//! a dropped connection means that the outcome is unknown, never that the command failed.

pub(crate) mod cleanups;
pub(crate) mod counters;
pub(crate) mod documents;
pub(crate) mod holders;
pub(crate) mod holdings;
mod outcome;
pub(crate) mod tenants;

use std::future::Future;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::action::{Aggregate, Find};
use mongodb::bson::{Document, doc};
use mongodb::options::{
    ClientOptions, CollectionOptions, IndexOptions, ReadConcern, ReadPreference, SelectionCriteria,
    WriteConcern,
};
use mongodb::{Client, ClientSession, Collection, Database, IndexModel};
use tokio::time::Instant;

use outcome::{Cause, check_reply};
pub use outcome::{StoreError, is_transient};

use crate::failpoint::{Failpoints, Phase};

/// The time that one attempt, poll, check or release has, whatever the server does.
pub(crate) const OPERATION: Duration = Duration::from_millis(4500);

/// When an operation that begins now must have its answer.
pub(crate) fn deadline() -> Instant {
    Instant::now() + OPERATION
}

/// Connects to MongoDB with the time limits that leases need: without them a paused server blocks a call for 17 to 26
/// seconds. What the URI says of time-outs and pool size is overridden; who it names and how it signs in is not.
///
/// # Errors
/// A URI that does not parse or does not resolve. No connection is made yet.
pub async fn connect(uri: &str) -> Result<Client, StoreError> {
    let build = async {
        let mut options = ClientOptions::parse(uri).await?;
        apply_time_limits(&mut options);
        Client::with_options(options)
    };
    build
        .await
        .map_err(|error| StoreError::driver("read the MongoDB URI", error))
}

/// The time limits of [`connect`], for those who build the driver's options themselves.
pub fn apply_time_limits(options: &mut ClientOptions) {
    options.server_selection_timeout = Some(Duration::from_millis(2000));
    options.connect_timeout = Some(Duration::from_millis(1000));
    options.heartbeat_freq = Some(Duration::from_millis(1000));
    options.max_pool_size = Some(options.max_pool_size.unwrap_or(0).max(100));
    // A URI may say w:1; nothing here relies on the client's default, but what others write beside us might.
    options.write_concern = Some(majority());
    options.selection_criteria = Some(primary());
}

fn majority() -> WriteConcern {
    WriteConcern::builder()
        .w(mongodb::options::Acknowledgment::Majority)
        .journal(true)
        .w_timeout(Duration::from_secs(4))
        .build()
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// How long the server works on a query that nobody waits for any more.
const MAX_TIME: Duration = Duration::from_secs(4);

/// How sure a read must be. Always from the primary.
#[derive(Debug)]
pub(crate) enum Read<'s> {
    /// The newest that the primary knows, for people and for hints.
    Latest,
    /// What no failover can take back, and nothing older than what the session has read before: for what an unbooking
    /// follows from. A primary that has been cut off may show the delete of a holder that will be rolled back, and a new
    /// one may for a moment show a state from before a holder whose booking the old one has shown; both would make an
    /// orphan of a token that is none.
    Committed(&'s mut ClientSession),
}

impl Read<'_> {
    fn concern(&self) -> ReadConcern {
        match self {
            Self::Latest => ReadConcern::local(),
            Self::Committed(_) => ReadConcern::majority(),
        }
    }

    async fn find(self, find: Find<'_, Document>) -> Result<Vec<Document>, Cause> {
        let find = find.max_time(MAX_TIME);
        Ok(match self {
            Self::Latest => find.await?.try_collect().await?,
            Self::Committed(session) => {
                let mut cursor = find.session(&mut *session).await?;
                cursor.stream(session).try_collect().await?
            }
        })
    }

    async fn aggregate(self, aggregate: Aggregate<'_>) -> Result<Vec<Document>, Cause> {
        let aggregate = aggregate.max_time(MAX_TIME);
        Ok(match self {
            Self::Latest => aggregate.await?.try_collect().await?,
            Self::Committed(session) => {
                let mut cursor = aggregate.session(&mut *session).await?;
                cursor.stream(session).try_collect().await?
            }
        })
    }
}

/// How sure an answer must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Acknowledge {
    /// It must survive a failover: a majority has it in its journal.
    Majority,
    /// Losing it is harmless: something later covers it or finds what it left.
    Primary,
}

impl Acknowledge {
    fn write_concern(self) -> Document {
        match self {
            Self::Majority => doc! { "w": "majority", "j": true, "wtimeout": 4000 },
            Self::Primary => doc! { "w": 1 },
        }
    }
}

/// Access to the lease collections of one database.
#[derive(Debug, Clone)]
pub(crate) struct LeaseStore {
    database: Database,
    pub(crate) failpoints: Failpoints,
}

impl LeaseStore {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            failpoints: Failpoints::default(),
        }
    }

    /// Creates what the queries need. There is deliberately no TTL index: a document that the server deletes by
    /// itself would leave its bookings behind.
    pub(crate) async fn create_indexes(&self) -> Result<(), StoreError> {
        let index = |keys| IndexModel::builder().keys(keys).build();
        let named = |keys, name: &str| {
            let options = IndexOptions::builder().name(name.to_owned());
            IndexModel::builder()
                .keys(keys)
                .options(options.build())
                .build()
        };
        // Only for documents that match: a lease without a pod, and one that is never revoked, pays nothing for these.
        let partial = |keys, only: Document| {
            let options = IndexOptions::builder().partial_filter_expression(only);
            IndexModel::builder()
                .keys(keys)
                .options(options.build())
                .build()
        };
        let being_revoked = || doc! { "state": documents::HolderState::Revoking };
        let options = IndexOptions::builder()
            .name(tenants::REVOCATIONS_OF_TENANT.to_owned())
            .partial_filter_expression(being_revoked());
        let revocations_of_tenant = IndexModel::builder()
            .keys(tenants::revocations_of_tenant())
            .options(options.build())
            .build();
        let indexes = [
            index(doc! { "state": 1, "ttlSeconds": 1, "lastSeenAt": 1 }),
            index(doc! { "levels": 1 }),
            named(tenants::of_tenant(), tenants::OF_TENANT),
            revocations_of_tenant,
            partial(
                doc! { "state": 1, "pod": 1 },
                doc! { "pod": { "$exists": true } },
            ),
            partial(
                doc! { "state": 1, "type": 1, "revocation.nextTryAt": 1 },
                being_revoked(),
            ),
            // Empty but for what a pod was asked for in vain.
            partial(
                doc! { "revocation.waitsForPod": 1, "pod": 1, "revocation.unreached": 1, "type": 1 },
                doc! { "revocation.waitsForPod": true },
            ),
        ];
        let deadline = Instant::now() + OPERATION;
        self.step("create indexes", deadline, async {
            self.holders(&Read::Latest).create_indexes(indexes).await?;
            let of_tenant = index(tenants::counters_of_tenant());
            self.counters(&Read::Latest).create_index(of_tenant).await?;
            Ok(())
        })
        .await
    }

    /// Reads and writes both collections without finding anything.
    pub(crate) async fn probe(&self, deadline: Instant) -> Result<(), StoreError> {
        for collection in [documents::HOLDERS, documents::COUNTERS] {
            let nothing = doc! { "_id": "", "no": "such field" };
            let update = doc! { "q": &nothing, "u": { "$set": { "no": "change" } } };
            let sent = self.update(
                "change a document",
                deadline,
                collection,
                vec![update],
                Acknowledge::Majority,
            );
            sent.await?;
            let delete = doc! {
                "delete": collection,
                "deletes": [{ "q": &nothing, "limit": 1 }],
                "writeConcern": Acknowledge::Majority.write_concern(),
            };
            self.command("delete a document", deadline, delete).await?;
            self.step("read a document", deadline, async {
                let found = self.collection(collection, &Read::Latest);
                Ok(found.find_one(nothing).max_time(MAX_TIME).await?)
            })
            .await?;
        }
        Ok(())
    }

    /// A session whose committed reads never go back in time.
    pub(crate) async fn ordered_reads(&self) -> Result<ClientSession, StoreError> {
        let session = self
            .database
            .client()
            .start_session()
            .causal_consistency(true);
        session
            .await
            .map_err(|error| StoreError::driver("start a session", error))
    }

    fn holders(&self, read: &Read<'_>) -> Collection<Document> {
        self.collection(documents::HOLDERS, read)
    }

    fn counters(&self, read: &Read<'_>) -> Collection<Document> {
        self.collection(documents::COUNTERS, read)
    }

    fn collection(&self, name: &str, read: &Read<'_>) -> Collection<Document> {
        let options = CollectionOptions::builder()
            .selection_criteria(primary())
            .read_concern(read.concern())
            .write_concern(majority())
            .build();
        self.database.collection_with_options(name, options)
    }

    /// One `update` command, its statements in order, stopping at the first that fails.
    async fn update(
        &self,
        step: &'static str,
        deadline: Instant,
        collection: &str,
        statements: Vec<Document>,
        acknowledge: Acknowledge,
    ) -> Result<Document, StoreError> {
        let command = doc! {
            "update": collection,
            "ordered": true,
            "updates": statements,
            "writeConcern": acknowledge.write_concern(),
            "maxTimeMS": MAX_TIME.as_millis() as i64,
        };
        self.command(step, deadline, command).await
    }

    /// Runs a write command. The driver neither retries it nor adds a write concern, and answers `Ok` with errors
    /// inside, so those are looked at here.
    async fn command(
        &self,
        step: &'static str,
        deadline: Instant,
        command: Document,
    ) -> Result<Document, StoreError> {
        self.step(step, deadline, async {
            let run = self.database.run_command(command);
            check_reply(run.selection_criteria(primary()).await?)
        })
        .await
    }

    /// One round trip: bounded by the deadline, named in its error, and framed by the failpoints of the crash tests.
    async fn step<T>(
        &self,
        step: &'static str,
        deadline: Instant,
        round_trip: impl Future<Output = Result<T, Cause>>,
    ) -> Result<T, StoreError> {
        self.failpoints.reached(step, Phase::Before).await;
        let answer = match tokio::time::timeout_at(deadline, round_trip).await {
            Ok(answer) => answer,
            Err(_) => Err(Cause::Deadline),
        };
        self.failpoints.reached(step, Phase::After).await;
        answer.map_err(|cause| StoreError::new(step, cause))
    }
}

/// A result, and whether an earlier sending of the same command may also have been applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) sent_before: bool,
}

/// Sends an idempotent command until its outcome is known, the store says something that another try cannot change, or
/// the deadline is near.
pub(crate) async fn until_known<T, F>(
    deadline: Instant,
    mut send: impl FnMut() -> F,
) -> Result<Answer<T>, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pause = Duration::from_millis(25);
    let mut sent_before = false;
    let mut earlier = None;
    loop {
        match send().await {
            Ok(value) => return Ok(Answer { value, sent_before }),
            Err(error) if error.is_transient() && Instant::now() + pause < deadline => {
                tracing::debug!(%error, "outcome unknown, sending again");
                sent_before = true;
                earlier = Some(error);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(400));
            }
            // Why it could not be sent before says more than that time ran out over the last sending.
            Err(error) => match earlier {
                Some(earlier) if error.is_deadline() => return Err(earlier),
                _ => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_uri_makes_an_answer_come_later_or_be_less_sure() {
        for said in [
            "",
            "&serverSelectionTimeoutMS=60000&connectTimeoutMS=60000&heartbeatFrequencyMS=60000&maxPoolSize=1&w=1\
             &journal=false&wtimeoutMS=0&readPreference=secondary",
        ] {
            let uri = format!("mongodb://127.0.0.1/?appName=test{said}");
            let mut options = ClientOptions::parse(&uri).await.unwrap();
            apply_time_limits(&mut options);
            let seconds = |time: Option<Duration>| time.unwrap().as_secs();
            assert_eq!(seconds(options.server_selection_timeout), 2, "{said}");
            assert_eq!(seconds(options.connect_timeout), 1, "{said}");
            assert_eq!(seconds(options.heartbeat_freq), 1, "{said}");
            assert_eq!(options.max_pool_size, Some(100), "{said}");
            assert_eq!(options.write_concern, Some(majority()), "{said}");
            assert_eq!(options.selection_criteria, Some(primary()), "{said}");
        }
        let uri = "mongodb://127.0.0.1/?maxPoolSize=500";
        let mut options = ClientOptions::parse(uri).await.unwrap();
        apply_time_limits(&mut options);
        assert_eq!(options.max_pool_size, Some(500), "more is not too many");
    }
}

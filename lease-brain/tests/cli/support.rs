//! A database of one's own, and the command line on it.

use std::{
    env,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lease_shared::definition::{ConfigDocuments, DocumentAddress, MongoDocuments};
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use serde_json::Value;
use test_mongo::TestMongo;

pub(crate) const LEASE: &str = env!("CARGO_BIN_EXE_lease");
/// For what takes no time but the scheduler's, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) mongo: TestMongo,
}

impl World {
    pub(crate) async fn new() -> Self {
        let mongo = TestMongo::new().await.unwrap();
        Self { mongo }
    }

    /// With `pdf`, of which there is one slot.
    pub(crate) async fn with_pdf(ttl: u32) -> Self {
        let world = Self::new().await;
        let body = format!("levels: {{ global: 1 }}\nttlSeconds: {ttl}");
        world.define("pdf", &body).await;
        world
    }

    /// Writes the definition of `name` into the system layer.
    pub(crate) async fn define(&self, name: &str, body: &str) {
        self.write(
            "_vance",
            "_tenant",
            name,
            &format!("name: {name}\n{body}\n"),
        )
        .await;
    }

    /// Writes a lease's document into any layer, whatever its text.
    pub(crate) async fn write(&self, tenant: &str, project: &str, name: &str, text: &str) {
        let address = DocumentAddress::lease(tenant, project, &name.parse().unwrap()).unwrap();
        let documents = ConfigDocuments::Mongo(MongoDocuments::new(self.mongo.database()));
        documents.put(&address, text).await.unwrap();
    }

    /// The command as user `ada` of `acme/thesis`, with nothing to read.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        command
            .env("MONGODB_URI", self.mongo.uri())
            .env("LEASE_DATABASE", self.mongo.name());
        command
    }

    /// A shell that knows the database, with `lease` on its path.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        let environment = self.command(&[]);
        let set = environment.get_envs();
        let path = env::var("PATH").unwrap();
        shell
            .args(["-c", script])
            .envs(set.filter_map(|(name, value)| Some((name, value?))))
            .env(
                "PATH",
                format!("{}:{path}", LEASE.rsplit_once('/').unwrap().0),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        shell
    }

    /// What the command did.
    pub(crate) fn lease(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    /// The token that an acquire printed.
    #[track_caller]
    pub(crate) fn acquire(&self, args: &[&str]) -> String {
        let output = self.lease(&[&["acquire"], args].concat());
        output.assert(0, "");
        output.stdout.trim_end().to_owned()
    }

    pub(crate) fn holders(&self) -> Collection<Document> {
        self.mongo.database().collection("resource_lease_holders")
    }

    pub(crate) fn counters(&self) -> Collection<Document> {
        self.mongo.database().collection("resource_lease_counters")
    }

    pub(crate) fn pods(&self) -> Collection<Document> {
        self.mongo.database().collection("brain_pods")
    }

    /// How many holder documents there are, and how many tokens in all counters.
    pub(crate) async fn stored(&self) -> (u64, i64) {
        let holders = self.holders().count_documents(doc! {}).await.unwrap();
        let sum = doc! { "$group": { "_id": null, "tokens": { "$sum": { "$size": "$tokens" } } } };
        let mut cursor = self.counters().aggregate(vec![sum]).await.unwrap();
        let tokens = match cursor.advance().await.unwrap() {
            true => i64::from(
                cursor
                    .deserialize_current()
                    .unwrap()
                    .get_i32("tokens")
                    .unwrap(),
            ),
            false => 0,
        };
        (holders, tokens)
    }

    /// Makes every holder look as if it had been used that much longer ago.
    pub(crate) async fn age(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", millis] } } };
        self.holders()
            .update_many(doc! {}, vec![older])
            .await
            .unwrap();
    }
}

/// The command without a database.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(LEASE);
    command
        .args(args)
        .env_remove("MONGODB_URI")
        .env_remove("LEASE_DATABASE")
        .env_remove("LEASE_DOCUMENTS")
        .env_remove("LEASE_LOG")
        .env_remove("LEASE_BRAIN_URL")
        .env_remove("LEASE_INTERNAL_TOKEN")
        .env_remove("LEASE_INTERNAL_TOKEN_FILE")
        .env_remove("LEASE_JWT_AUDIENCE")
        .env_remove("LEASE_JWT_ISSUER")
        .env_remove("LEASE_JWT_SECRET_FILE")
        .env("LEASE_TENANT", "acme")
        .env("LEASE_PROJECT", "thesis")
        .env("LEASE_USER", "ada")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::of_child(command.spawn().unwrap())
    }

    /// With this text on its standard input.
    #[track_caller]
    pub(crate) fn given(command: &mut Command, text: &[u8]) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // What is refused is not read.
        let _ = child.stdin.take().unwrap().write_all(text);
        Self::of_child(child)
    }

    #[track_caller]
    pub(crate) fn of_child(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        let code = until(SOON, "its end", || child.try_wait().unwrap()).code();
        let text = |reader: Option<thread::JoinHandle<String>>| {
            reader.map_or_else(String::new, |reader| reader.join().unwrap())
        };
        Self {
            code,
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// Ended with this code and this on standard error.
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, stderr: &str) {
        assert_eq!((self.code, &*self.stderr), (Some(code), stderr), "{self:?}");
    }

    /// Failed with this code, no data, and exactly one line on standard error, which this returns without its `lease: `.
    #[track_caller]
    pub(crate) fn error(&self, code: i32) -> &str {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        self.error_line()
    }

    #[track_caller]
    pub(crate) fn error_line(&self) -> &str {
        let line = self
            .stderr
            .strip_suffix('\n')
            .filter(|it| !it.contains('\n'));
        let line = line.unwrap_or_else(|| panic!("not one line: {self:?}"));
        assert!(
            !line.contains(char::is_control),
            "raw control characters: {self:?}"
        );
        line.strip_prefix("lease: ")
            .unwrap_or_else(|| panic!("not by lease: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let value = serde_json::from_str(&self.stdout);
        value.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The cells of a table, row by row, tokens, times and durations replaced by their kind.
    #[track_caller]
    pub(crate) fn table(&self) -> Vec<Vec<String>> {
        let cells = |line: &str| {
            let cells = line
                .split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty());
            cells
                .map(|cell| kind(cell).unwrap_or(cell).to_owned())
                .collect()
        };
        self.stdout.lines().map(cells).collect()
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

fn kind(cell: &str) -> Option<&'static str> {
    let is_token = cell.len() == 32 && cell.bytes().all(|b| b.is_ascii_hexdigit());
    let is_time = cell.len() >= 20 && cell.ends_with('Z') && cell.as_bytes()[10] == b'T';
    let is_duration = |part: &str| {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit());
        unit.len() < part.len() && matches!(unit, "s" | "m" | "h")
    };
    match () {
        () if is_token => Some("TOKEN"),
        () if is_time => Some("TIME"),
        () if cell.split(' ').all(is_duration) => Some("DURATION"),
        () => None,
    }
}

/// Looks again and again until something is found.
#[track_caller]
pub(crate) fn until<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

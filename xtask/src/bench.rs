//! `cargo xtask bench`: what leases cost, counted first and then measured against a raw write in the same run.

mod commands;
mod contention;
mod latency;
mod storm;

use anyhow::{Context as _, Result};
use lease_shared::definition::DocumentAddress;
use lease_shared::{LeaseRef, LeaseRequest, LeaseService, LeaseType, Tenancy, apply_time_limits};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;
use serde::Serialize;
use test_mongo::Mongod;

use crate::cargo::{cargo, succeed};
use crate::mongo::given_uri;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask bench --json | tail -n 1")]
pub(crate) struct Opts {
    /// End with one JSON object
    #[arg(long)]
    json: bool,
    /// How many rounds of each latency; contention takes four turns of a hundredth of that in seconds
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    rounds: u32,
    /// Build as cargo's dev profile, to see that it runs; its times mean little
    #[arg(long)]
    dev: bool,
}

#[derive(Serialize)]
struct Report {
    commands: commands::Commands,
    ratio: Ratio,
    latency: latency::Latencies,
    contention: contention::Contention,
    storm: storm::Storm,
}

/// What the project aims at. Times differ from machine to machine and from hour to hour; these hardly do.
#[derive(Serialize)]
struct Ratio {
    /// Acquire and release with four levels, the unbooking not awaited, by the raw update's median; aim: at most 4.5.
    acquire_release4_over_update: f64,
    /// The same, awaited; aim: at most 6.
    acquire_release4_awaited_over_update: f64,
    acquire_release1_over_update: f64,
    check_over_update: f64,
    /// Pairs per second of 64 contenders on 6 slots in the line, by the same polling freely; aim: at least 4.
    line_gain: f64,
    /// In a storm of releases, from a release to the return of its slots, the 95th percentile; aim: at most 2 for each lease, whose
    /// end and whose unbooking are a write each on what all share.
    release_to_free_p95_over_update: f64,
}

/// Builds this program for release and runs the measuring in it.
pub(crate) async fn run(opts: Opts) -> Result<()> {
    if opts.dev {
        return measure(opts).await;
    }
    succeed(&mut cargo(["build", "--release", "--package", "xtask"]))?;
    let program = test_mongo::paths::target().join("release").join("xtask");
    let mut measuring = std::process::Command::new(program);
    measuring
        .arg("__bench")
        .arg("--rounds")
        .arg(opts.rounds.to_string());
    if opts.json {
        measuring.arg("--json");
    }
    succeed(&mut measuring)
}

/// The hidden task that measures.
pub(crate) async fn measure(opts: Opts) -> Result<()> {
    let server = match given_uri().await {
        Some(_) => None,
        None => Some(Mongod::start().await?),
    };
    let uri = given_uri()
        .await
        .or_else(|| server.as_ref().map(Mongod::uri))
        .context("no server")?;
    let bench = Bench {
        uri,
        database: format!("bench_{}", std::process::id()),
    };
    let report = bench.report(opts.rounds).await;
    bench
        .client(None)
        .await?
        .database(&bench.database)
        .drop()
        .await?;
    let report = report?;
    if opts.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &Report) {
    let Report {
        commands,
        ratio,
        latency,
        contention,
        storm,
    } = report;
    println!("commands: {commands:?}");
    for (name, it) in latency.named() {
        println!(
            "{name:<44} p50 {:>7.3} ms   p99 {:>7.3} ms",
            it.p50_ms, it.p99_ms
        );
    }
    for (name, it) in [
        ("in the line", &contention.line),
        ("polling freely", &contention.free),
        ("waiting apart", &contention.apart),
    ] {
        println!(
            "64 contenders on 6 slots, {name:<15} {:>5.0} pairs per second, at least {} each",
            it.pairs_per_second, it.fewest
        );
    }
    println!(
        "{} leases released at once, slots free       p50 {:>7.3} ms   p95 {:>7.3} ms after the release",
        storm.leases, storm.to_free_p50_ms, storm.to_free_p95_ms
    );
    println!(
        "95 of 100 slots free, in raw updates for each lease released with them: {:.2} (aim: at most 2)",
        ratio.release_to_free_p95_over_update / storm.leases as f64
    );
    println!(
        "acquire + release, four levels, over a raw update: {:.2} (aim: at most 4.5)",
        ratio.acquire_release4_over_update
    );
    println!(
        "the same with the unbooking awaited: {:.2} (aim: at most 6)",
        ratio.acquire_release4_awaited_over_update
    );
    println!(
        "the line over free polling: {:.1} (aim: at least 4)",
        ratio.line_gain
    );
}

/// The database that is measured on.
struct Bench {
    uri: String,
    database: String,
}

impl Bench {
    async fn report(&self, rounds: u32) -> Result<Report> {
        let leases = self.service(None).await?;
        self.define(
            &leases,
            "four",
            "levels: { user: 1000, project: 1000, tenant: 1000, global: 1000 }",
        )
        .await?;
        self.define(&leases, "one", "levels: { global: 1000 }")
            .await?;
        self.define(
            &leases,
            "scarce",
            "levels: { user: 1000, project: 1000, tenant: 1000, global: 1 }",
        )
        .await?;
        self.define(&leases, "six", "levels: { global: 6 }").await?;
        self.define(&leases, "free", "ttlSeconds: 60").await?;
        let commands = commands::count(self).await?;
        let latency = latency::measure(self, &leases, rounds).await?;
        let contention = contention::measure(self, rounds).await?;
        let storm = storm::measure(&leases).await?;
        let over_update = |it: &latency::Latency| round(it.p50_ms / latency.update.p50_ms);
        let ratio = Ratio {
            acquire_release4_over_update: over_update(&latency.acquire_release4),
            acquire_release4_awaited_over_update: over_update(&latency.acquire_release4_awaited),
            acquire_release1_over_update: over_update(&latency.acquire_release1),
            check_over_update: over_update(&latency.check),
            line_gain: round(contention.line.pairs_per_second / contention.free.pairs_per_second),
            release_to_free_p95_over_update: round(storm.to_free_p95_ms / latency.update.p50_ms),
        };
        Ok(Report {
            commands,
            ratio,
            latency,
            contention,
            storm,
        })
    }

    async fn client(&self, heard: Option<commands::Heard>) -> Result<mongodb::Client> {
        let mut options = ClientOptions::parse(&self.uri).await?;
        apply_time_limits(&mut options);
        if let Some(heard) = heard {
            options.command_event_handler = Some(EventHandler::callback(move |event| {
                if let CommandEvent::Started(started) = event {
                    heard.hear(&started.command);
                }
            }));
        }
        Ok(mongodb::Client::with_options(options)?)
    }

    async fn service(&self, heard: Option<commands::Heard>) -> Result<LeaseService> {
        let database = self.client(heard).await?.database(&self.database);
        Ok(LeaseService::builder(database)
            .follow_changes(false)
            .start()
            .await?)
    }

    async fn define(&self, leases: &LeaseService, name: &str, body: &str) -> Result<()> {
        let address = DocumentAddress::lease("_vance", "_tenant", &name.parse()?)?;
        Ok(leases
            .definitions()
            .put(&address, &format!("name: {name}\n{body}\n"))
            .await?)
    }
}

fn request(name: &str, wait: std::time::Duration) -> Result<LeaseRequest> {
    Ok(LeaseRequest::builder()
        .lease_type(LeaseType::command())
        .lease(LeaseRef::named(name)?)
        .tenancy(Tenancy::new("acme", "thesis", "ada")?)
        .holder_ref("bench")
        .wait(wait)
        .build())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

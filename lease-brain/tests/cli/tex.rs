//! `lease tex compile`: a folder goes to a brain, and a PDF comes back or one line says why not.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use lease_shared::definition::{ConfigDocuments, DocumentAddress, MongoDocuments};
use mongodb::bson::doc;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    brain::Brain,
    processes::signal,
    support::{Output, World},
    tex_service::{PDF, Service},
};

const SETTINGS: &str = "_vance/config/settings.yaml";

/// A service that everybody's documents go to.
async fn service(world: &World) -> Service {
    let service = Service::start().await;
    let text = format!(
        "tex.executor: rbehzadan\ntex.rbehzadan.url: {}\ntex.rbehzadan.pollIntervalSeconds: 1\n",
        service.url()
    );
    let address = DocumentAddress::new("_vance", "_tenant", SETTINGS).unwrap();
    let documents = ConfigDocuments::Mongo(MongoDocuments::new(world.mongo.database()));
    documents.put(&address, &text).await.unwrap();
    service
}

/// A folder with a document in it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parts")).unwrap();
    fs::write(folder.path().join("paper.tex"), "\\input{parts/rest}").unwrap();
    fs::write(folder.path().join("parts/rest.tex"), "x").unwrap();
    folder
}

async fn tex(world: &World, folder: &Path, args: &[&str]) -> Output {
    let mut command = world.operator_command(&[&["tex", "compile"], args].concat());
    command.current_dir(folder);
    tokio::task::spawn_blocking(move || Output::of(&mut command))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_becomes_a_pdf() {
    let world = World::new().await;
    let service = service(&world).await;
    let _brain = Brain::start(&world, "a");
    let folder = folder();
    for (args, file) in [
        (vec![".", "--main", "paper.tex"], "paper.pdf"),
        (vec![".", "--main", "paper.tex", "-o", "out.pdf"], "out.pdf"),
    ] {
        let ending = async {
            service
                .until("it runs", |service| service.running() == 1)
                .await;
            service.end_one("completed");
        };
        let (compiled, ()) = tokio::join!(tex(&world, folder.path(), &args), ending);
        assert_eq!(compiled.code, Some(0), "{compiled:?}");
        assert_eq!(compiled.stdout, "");
        assert_eq!(fs::read(folder.path().join(file)).unwrap(), PDF);
    }
    let ending = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.end_one("completed");
    };
    let to_stdout = [".", "--main", "paper.tex", "-o", "-"];
    let (compiled, ()) = tokio::join!(tex(&world, folder.path(), &to_stdout), ending);
    assert_eq!(compiled.stdout.as_bytes(), PDF);
}

#[tokio::test(flavor = "multi_thread")]
async fn pdf_takes_no_others_place() {
    let world = World::new().await;
    let service = service(&world).await;
    let _brain = Brain::start(&world, "a");
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("real.pdf"), "old").unwrap();
    fs::set_permissions(at("real.pdf"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink("real.pdf", at("link.pdf")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    for to in ["link.pdf", "null"] {
        let args = [".", "--main", "paper.tex", "-o", to];
        let ending = async {
            service
                .until("it runs", |service| service.running() == 1)
                .await;
            service.end_one("completed");
        };
        // The links are none of the document's.
        let sources = tempfile::tempdir().unwrap();
        fs::write(sources.path().join("paper.tex"), "x").unwrap();
        let from = sources.path().to_str().unwrap().to_owned();
        let args = [&[from.as_str()], &args[1..]].concat();
        let (compiled, ()) = tokio::join!(tex(&world, folder.path(), &args), ending);
        assert_eq!(compiled.code, Some(0), "{compiled:?}");
    }
    assert_eq!(fs::read(at("real.pdf")).unwrap(), PDF);
    assert!(fs::symlink_metadata(at("link.pdf")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(at("null")).unwrap().is_symlink());
    let mode = fs::metadata(at("real.pdf")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let both = tex(
        &world,
        folder.path(),
        &["parts", "--main", "rest.tex", "-o", "-", "--json"],
    )
    .await;
    assert!(both.error(64).contains("cannot both"), "{both:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_is_one_line_and_leaves_the_old_pdf() {
    let world = World::new().await;
    let service = service(&world).await;
    let folder = folder();
    let old = folder.path().join("paper.pdf");
    fs::write(&old, "old").unwrap();
    let paper = [".", "--main", "paper.tex"];
    let no_brain = tex(&world, folder.path(), &paper).await;
    assert!(no_brain.error(69).contains("no brain is alive"));
    for (args, words) in [
        (vec!["."], "has no main.tex: name the main file with --main"),
        (vec![".", "--main", "../paper.tex"], "../paper.tex"),
        (vec!["nowhere", "--main", "paper.tex"], "nowhere"),
    ] {
        let refused = tex(&world, folder.path(), &args).await;
        assert!(refused.error(64).contains(words), "{refused:?}");
    }
    let _brain = Brain::start(&world, "a");
    let ending = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.end_one("failed");
    };
    let (failed, ()) = tokio::join!(tex(&world, folder.path(), &paper), ending);
    let line = failed.stderr.lines().last().unwrap().to_owned();
    assert_eq!(failed.code, Some(69), "{failed:?}");
    assert!(
        line.starts_with("lease: TEX_REMOTE: ") && line.contains("it was told to"),
        "{line}"
    );
    let engine = tex(
        &world,
        folder.path(),
        &[".", "--main", "paper.tex", "--engine", "tex"],
    )
    .await;
    assert!(engine.error(64).contains("pdflatex"), "{engine:?}");
    let ending = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.end_one("failed");
    };
    let json = [".", "--main", "paper.tex", "--json"];
    let (failed, ()) = tokio::join!(tex(&world, folder.path(), &json), ending);
    assert_eq!(failed.json()["problem"]["code"], "TEX_REMOTE");
    assert_eq!(fs::read(&old).unwrap(), b"old");
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_and_revoked_have_their_codes() {
    let world = World::new().await;
    let service = service(&world).await;
    world.define("tex", "waitMs: 0").await;
    let _brain = Brain::start(&world, "a");
    let folder = folder();
    let paper = [".", "--main", "paper.tex"];
    let first = tex(&world, folder.path(), &paper);
    let others = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        let busy = tex(&world, folder.path(), &paper).await;
        assert_eq!(busy.code, Some(75), "{busy:?}");
        assert!(
            busy.stderr.contains("1 of 1 in use at level project"),
            "{busy:?}"
        );
        let holder = world
            .holders()
            .find_one(doc! { "type": "tex" })
            .await
            .unwrap()
            .unwrap();
        let token = holder.get_str("_id").unwrap().to_owned();
        let mut revoke = world.operator_command(&["revoke", &token, "--wait"]);
        let revoked = tokio::task::spawn_blocking(move || Output::of(&mut revoke))
            .await
            .unwrap();
        assert_eq!(revoked.code, Some(0), "{revoked:?}");
    };
    let (revoked, ()) = tokio::join!(first, others);
    assert_eq!(revoked.code, Some(76), "{revoked:?}");
    assert!(
        revoked.stderr.contains("an operator revoked it"),
        "{revoked:?}"
    );
    world.until_nothing_is_stored();
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_command_ends_its_compilation() {
    let world = World::new().await;
    let service = service(&world).await;
    let _brain = Brain::start(&world, "a");
    let folder = folder();
    let mut command = world.operator_command(&["tex", "compile", ".", "--main", "paper.tex"]);
    let mut child = command.current_dir(folder.path()).spawn().unwrap();
    service
        .until("it runs", |service| service.running() == 1)
        .await;
    signal(child.id().cast_signed(), Signal::INT);
    let _ = child.wait().unwrap();
    world.until_nothing_is_stored();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_nobody_could_use_are_not_written() {
    let world = World::new().await;
    let put = |text: &str| {
        let args = [
            "document",
            "put",
            SETTINGS,
            "--tenant",
            "acme",
            "--project",
            "thesis",
        ];
        Output::given(&mut world.command(&args), text.as_bytes())
    };
    let refused = put("tex.lease: tex\ntex.executor: local\n");
    assert!(
        refused.error(78).contains(":2: tex.executor"),
        "{refused:?}"
    );
    put("tex.lease: none\n").assert(0, "");
}

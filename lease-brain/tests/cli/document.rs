//! `lease document put | get | list | rm`, on both kinds of store.

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Output, World};

const PDF: &str = "_vance/config/lease/pdf.yaml";
const SYSTEM: [&str; 4] = ["--tenant", "_vance", "--project", "_tenant"];
const GOOD: &str = "name: pdf\nlevels: { user: 1 }\n";
const BROKEN: &str = "name: pdf\nlevels: { user: six }\n";

/// Documents in MongoDB, or in a directory with no server anywhere.
struct Store {
    world: World,
    directory: Option<TempDir>,
}

impl Store {
    async fn both() -> [Self; 2] {
        let directory = Some(tempfile::tempdir().unwrap());
        [
            Self {
                world: World::new().await,
                directory: None,
            },
            Self {
                world: World::new().await,
                directory,
            },
        ]
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.world.command(&[&["document"], args].concat());
        if let Some(directory) = &self.directory {
            let place = format!("dir:{}", directory.path().display());
            command.args(["--documents", &place]);
            command.env("MONGODB_URI", "mongodb://127.0.0.1:1");
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    fn put(&self, args: &[&str], text: &[u8]) -> Output {
        Output::given(&mut self.command(&[&["put"], args].concat()), text)
    }

    #[track_caller]
    fn assert_stored(&self, addresses: &[[&str; 3]]) {
        let listed = self.run(&["list", "--json"]);
        listed.assert(0, "");
        let entry = |it: &[&str; 3]| json!({ "tenant": it[0], "project": it[1], "path": it[2] });
        assert_eq!(
            listed.json(),
            json!(addresses.iter().map(entry).collect::<Vec<_>>())
        );
    }
}

fn nothing_reads(path: &str) -> String {
    format!(
        "written, but nothing reads {path}; a lease definition is at _vance/config/lease/NAME.yaml\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn document_comes_back_to_the_byte() {
    for store in Store::both().await {
        let texts = [
            "",
            "\n",
            "no end of line",
            "one\n",
            "two\n\n",
            "\u{feff}crlf\r\nand\ttab\r\n",
            "naïve 😀 \u{1b}[31m\0\n",
        ];
        for text in texts {
            let put = store.put(&["notes/a b.txt"], text.as_bytes());
            put.assert(0, &nothing_reads("notes/a b.txt"));
            let got = store.run(&["get", "notes/a b.txt"]);
            got.assert(0, "");
            assert_eq!(got.stdout, text);
            let json = store.run(&["get", "notes/a b.txt", "--json"]);
            json.assert(0, "");
            let whole = json!({ "tenant": "acme", "project": "thesis", "path": "notes/a b.txt", "content": text });
            assert_eq!(json.json(), whole);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_lease_definition_is_refused_and_the_old_one_stays() {
    for store in Store::both().await {
        let at = [&[PDF], &SYSTEM[..]].concat();
        store.put(&at, GOOD.as_bytes()).assert(0, "");
        for (text, problem) in [
            (
                BROKEN,
                ":2: levels.user: `six`: must be a whole number from 1 to 1000",
            ),
            ("", ": "),
            ("name: tex\n", ":1: name: `tex`: "),
            ("name: pdf\nlevel: {}\n", ":2: level: "),
        ] {
            let refused = store.put(&at, text.as_bytes());
            let error = refused.error(78);
            let starts = format!(
                "not written (--no-validate writes it all the same): system document _vance/_tenant/{PDF}{problem}"
            );
            assert!(error.starts_with(&starts), "{error}");
            let kept = store.run(&[&["get"], &at[..]].concat());
            assert_eq!(kept.stdout, GOOD);
        }
        // Who insists may, and nobody gets the lease then.
        store
            .put(&[&at[..], &["--no-validate"]].concat(), BROKEN.as_bytes())
            .assert(0, "");
        let kept = store.run(&[&["get"], &at[..]].concat());
        assert_eq!(kept.stdout, BROKEN);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_document_leaves_nothing_behind() {
    for store in Store::both().await {
        store.put(&[PDF], BROKEN.as_bytes()).error(78);
        // At a place that no layer reads, or with a name that no lease can have.
        let nowhere = [&[PDF], &["--tenant", "_vance", "--project", "thesis"][..]].concat();
        assert!(
            store
                .put(&nowhere, GOOD.as_bytes())
                .error(78)
                .contains("no layer reads this address")
        );
        for name in ["a.b.yaml", "pdf.yml", "sub/pdf.yaml"] {
            let path = format!("_vance/config/lease/{name}");
            assert!(
                store
                    .put(&[&path], GOOD.as_bytes())
                    .error(78)
                    .contains("then .yaml")
            );
        }
        store.assert_stored(&[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_documents_are_written_unchecked() {
    for store in Store::both().await {
        let path = "_vance/config/notes/browser.yaml";
        let put = store.put(&[path], BROKEN.as_bytes());
        put.assert(0, &nothing_reads(path));
        store.assert_stored(&[["acme", "thesis", path]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_do_nothing_is_written_and_told() {
    let tool = "type: mcp_server\nparameters:\n  transport: http\n  url: http://127.0.0.1:1/\n  lease: pdf\n";
    for store in Store::both().await {
        let all = "name: pdf\nresource: r\nlevels: { global: 1, tenant: 2, project: 3 }\n";
        let of_project = "written, but ignored: resource (a project document may not set it)\n\
                          written, but ignored: levels.global (a project document may not set it)\n\
                          written, but ignored: levels.tenant (a project document may not set it)\n";
        let of_tenant = "written, but ignored: levels.global (a tenant document may not set it)\n";
        for (args, said) in [
            (&[PDF][..], of_project),
            (&[PDF, "--no-validate"], of_project),
            (&[PDF, "--project", "_tenant"], of_tenant),
            (&[&[PDF], &SYSTEM[..]].concat(), ""),
        ] {
            store.put(args, all.as_bytes()).assert(0, said);
        }
        for path in ["config/lease/pdf.yaml", "_vance/config/leases/pdf.yaml"] {
            let put = store.put(&[path], GOOD.as_bytes());
            put.assert(0, &nothing_reads(path));
        }
        for (path, text) in [
            ("_vance/config/tools/t.yaml", tool),
            ("_vance/config/settings.yaml", "tex.lease: pdf\n"),
        ] {
            store.put(&[path], text.as_bytes()).assert(0, "");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_addresses_and_texts_are_refused() {
    for store in Store::both().await {
        for path in [
            "../pdf.yaml",
            "/etc/passwd",
            "a//b",
            "a/./b",
            "",
            "a\\b",
            "a\nb",
        ] {
            for verb in ["put", "get", "rm"] {
                let output = Output::given(&mut store.command(&[verb, path]), b"text");
                let error = output.error(78);
                let starts = "LEASE_INVALID: document path ";
                assert!(error.starts_with(starts), "{verb} {path:?}: {error}");
            }
        }
        let output = store.run(&["get", "a", "--tenant", ""]);
        assert!(
            output.error(78).starts_with("LEASE_INVALID: tenant \"\" "),
            "{output:?}"
        );
        let output = store.put(&["a"], b"\xff\xfe");
        assert_eq!(output.error(78), "standard input is not UTF-8 text");
        let output = store.run(&["put", "a", "--file", "/no/such/file"]);
        assert!(
            output
                .error(1)
                .starts_with("could not read /no/such/file: "),
            "{output:?}"
        );
        store.assert_stored(&[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_put_listed_and_removed() {
    for store in Store::both().await {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), GOOD).unwrap();
        let path = file.path().to_str().unwrap();
        let at = [&[PDF], &SYSTEM[..]].concat();
        store
            .run(&[&["put"], &at[..], &["--file", path]].concat())
            .assert(0, "");
        store
            .put(&["notes"], b"x")
            .assert(0, &nothing_reads("notes"));

        let list = store.run(&["list"]);
        list.assert(0, "");
        assert_eq!(
            list.table(),
            [
                ["TENANT", "PROJECT", "PATH"],
                ["_vance", "_tenant", PDF],
                ["acme", "thesis", "notes"]
            ]
        );
        let none = store.run(&["list", "--tenant", "nobody"]);
        none.assert(0, "no documents match\n");
        assert_eq!(none.stdout, "");
        let one = store.run(&["list", "--tenant", "acme", "--json"]);
        assert_eq!(one.json().as_array().unwrap().len(), 1);

        store.run(&[&["rm"], &at[..]].concat()).assert(0, "");
        store.assert_stored(&[["acme", "thesis", "notes"]]);
        for verb in ["rm", "get"] {
            let gone = store.run(&[&[verb], &at[..]].concat());
            assert_eq!(gone.error(1), format!("no document _vance/_tenant/{PDF}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_in_a_directory_are_what_an_acquire_goes_by() {
    let world = World::new().await;
    let directory = tempfile::tempdir().unwrap();
    let place = format!("dir:{}", directory.path().display());
    let at = [
        &["document", "put", PDF],
        &SYSTEM[..],
        &["--documents", &place],
    ]
    .concat();
    Output::given(&mut world.command(&at), GOOD.as_bytes()).assert(0, "");
    world.lease(&["acquire", "pdf"]).error(78);
    world.acquire(&["pdf", "--documents", &place]);
    world
        .lease(&["acquire", "pdf", "--documents", &place, "--wait", "0s"])
        .error(75);
    let missing = world.lease(&["acquire", "pdf", "--documents", "dir:/no/such/folder"]);
    assert!(missing.error(69).contains("/no/such/folder"), "{missing:?}");
}

//! What of a tab may change while somebody looks at it, and what of it has.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{Markup, html};
use serde::Serialize;

/// What a tab shows now. It says nothing that changes by itself, as "3 min ago": the script does.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The server's time at which it was read; nothing if there was nothing to read.
    pub(super) now: Option<String>,
    /// How long ago the brain that answers has swept.
    pub(super) swept_seconds: Option<u64>,
    /// Single pieces, each by its name.
    pub(super) parts: Vec<(&'static str, Markup)>,
    /// Rows and the like.
    pub(super) lists: Vec<List>,
}

/// A list, each entry by its key, which stands in its `data-key` too.
#[derive(Debug)]
pub(super) struct List {
    pub(super) name: &'static str,
    pub(super) items: Vec<(String, Markup)>,
}

impl View {
    /// A piece, where it stands in a line.
    pub(super) fn span(&self, name: &str) -> Markup {
        html! { span id={ "part-" (name) } { @if let Some(part) = self.part(name) { (part) } } }
    }

    /// A piece that stands for itself.
    pub(super) fn block(&self, name: &str) -> Markup {
        html! { div id={ "part-" (name) } { @if let Some(part) = self.part(name) { (part) } } }
    }

    /// The entries of a list, to stand in an element with its name in `data-list`.
    pub(super) fn items(&self, name: &str) -> Markup {
        let list = self.lists.iter().find(|list| list.name == name);
        html! { @for (_, item) in list.map(|list| &list.items).into_iter().flatten() { (item) } }
    }

    fn part(&self, name: &str) -> Option<&Markup> {
        let part = self.parts.iter().find(|(known, _)| *known == name);
        part.map(|(_, part)| part)
    }
}

/// What a page has been sent, as digests.
#[derive(Debug, Default)]
pub(super) struct Sent {
    parts: HashMap<&'static str, u64>,
    lists: HashMap<&'static str, (Vec<String>, HashMap<String, u64>)>,
}

/// What a page has not been sent yet.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Changes {
    parts: HashMap<&'static str, String>,
    lists: HashMap<&'static str, ListChanges>,
}

/// A list that is not as it was: all its keys in their order, and the entries that are new or differ.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ListChanges {
    order: Vec<String>,
    items: HashMap<String, String>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.lists.is_empty()
    }
}

impl Sent {
    /// What is to be sent, and is taken for sent from now on.
    pub(super) fn changes(&mut self, view: &View) -> Changes {
        let mut changes = Changes::default();
        for (name, part) in &view.parts {
            let digest = digest(&part.0);
            if self.parts.insert(name, digest) != Some(digest) {
                changes.parts.insert(name, part.0.clone());
            }
        }
        for list in &view.lists {
            let (order, items) = self.lists.entry(list.name).or_default();
            let mut differing = HashMap::new();
            let mut now = HashMap::new();
            for (key, item) in &list.items {
                let digest = digest(&item.0);
                if items.get(key) != Some(&digest) {
                    differing.insert(key.clone(), item.0.clone());
                }
                now.insert(key.clone(), digest);
            }
            let keys: Vec<_> = list.items.iter().map(|(key, _)| key.clone()).collect();
            if *order != keys || !differing.is_empty() {
                let (order, items) = (keys.clone(), differing);
                changes
                    .lists
                    .insert(list.name, ListChanges { order, items });
            }
            (*order, *items) = (keys, now);
        }
        changes
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    fn view(total: &str, rows: &[(&str, &str)]) -> View {
        let item = |(key, html): &(&str, &str)| ((*key).to_owned(), PreEscaped((*html).to_owned()));
        View {
            parts: vec![("total", PreEscaped(total.to_owned()))],
            lists: vec![List {
                name: "rows",
                items: rows.iter().map(item).collect(),
            }],
            ..View::default()
        }
    }

    fn said(changes: &Changes) -> serde_json::Value {
        serde_json::to_value(changes).unwrap()
    }

    #[test]
    fn only_what_differs_is_sent() {
        let mut sent = Sent::default();
        let first = sent.changes(&view("2", &[("a", "A"), ("b", "B")]));
        let all = serde_json::json!({ "parts": { "total": "2" },
            "lists": { "rows": { "order": ["a", "b"], "items": { "a": "A", "b": "B" } } } });
        assert_eq!(said(&first), all);

        assert!(
            sent.changes(&view("2", &[("a", "A"), ("b", "B")]))
                .is_empty()
        );

        let changed = sent.changes(&view("2", &[("a", "A"), ("b", "B2")]));
        let row = serde_json::json!({ "parts": {},
            "lists": { "rows": { "order": ["a", "b"], "items": { "b": "B2" } } } });
        assert_eq!(said(&changed), row);

        let gone = sent.changes(&view("1", &[("b", "B2")]));
        let order = serde_json::json!({ "parts": { "total": "1" },
            "lists": { "rows": { "order": ["b"], "items": {} } } });
        assert_eq!(said(&gone), order);

        let back = sent.changes(&view("1", &[("a", "A"), ("b", "B2")]));
        let row = serde_json::json!({ "parts": {},
            "lists": { "rows": { "order": ["a", "b"], "items": { "a": "A" } } } });
        assert_eq!(said(&back), row);
    }
}

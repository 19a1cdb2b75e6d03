//! The live picture on a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lease_shared::{Filter, LeaseService, Level};

use super::fleet::Outcomes;
use super::{LEASE, PROJECTS, TENANTS};

/// A bar for each shared counter, and one line of outcomes. Draws nothing where standard error is no terminal.
pub(crate) struct Board {
    bars: Vec<(String, ProgressBar)>,
    all: MultiProgress,
    line: ProgressBar,
}

impl Board {
    pub(crate) fn new(wanted: bool) -> Self {
        let target = if wanted {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let all = MultiProgress::with_draw_target(target);
        let mut scopes = vec![(String::new(), 4)];
        for tenant in TENANTS {
            scopes.push((tenant.to_owned(), 3));
            scopes.extend(PROJECTS.map(|project| (format!("{tenant}/{project}"), 2)));
        }
        let style = ProgressStyle::with_template("{prefix:<18} {bar:24} {pos} of {len} in use")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |(scope, cap): (String, u64)| {
            let bar = all.add(ProgressBar::new(cap).with_style(style.clone()));
            bar.set_prefix(if scope.is_empty() {
                "everybody".to_owned()
            } else {
                scope.clone()
            });
            (scope, bar)
        };
        let bars = scopes.into_iter().map(bar).collect();
        let line = all.add(ProgressBar::new_spinner());
        line.enable_steady_tick(Duration::from_millis(250));
        Self { bars, all, line }
    }

    /// Draws the counters as they are now; what cannot be read now is drawn next time.
    pub(crate) async fn show(&self, leases: &LeaseService, outcomes: &Outcomes) {
        if self.all.is_hidden() {
            return;
        }
        let filter = Filter {
            resource: Some(LEASE.to_owned()),
            ..Filter::default()
        };
        if let Ok(counters) = leases.views().counters(&filter).await {
            for (scope, bar) in &self.bars {
                let counter = counters.entries.iter().find(|counter| {
                    counter.level != Level::User && counter.key.ends_with(&format!("|{scope}"))
                });
                bar.set_position(counter.map_or(0, |counter| counter.count.unsigned_abs()));
            }
        }
        self.line.set_message(format!(
            "{} commands done, {} told busy, {} lost, {} unavailable",
            outcomes.done, outcomes.busy, outcomes.lost, outcomes.unavailable
        ));
    }

    pub(crate) fn say(&self, text: &str) {
        if self.all.println(text).is_err() {
            eprintln!("{text}");
        }
        if self.all.is_hidden() {
            eprintln!("{text}");
        }
    }

    pub(crate) fn end(&self) {
        for (_, bar) in &self.bars {
            bar.finish_and_clear();
        }
        self.line.finish_and_clear();
    }
}

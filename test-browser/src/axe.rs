//! What axe finds wrong on a page for people who use a keyboard, a screen reader, or weak eyes.

use anyhow::{Context as _, Result, ensure};
use fantoccini::Client;
use serde::Deserialize;

use crate::tools;

/// Run in the page after axe itself. A target within a shadow tree is a list.
const RUN: &str = r#";
const answer = arguments[arguments.length - 1];
axe.run().then(
    ({ violations }) => answer({ violations: violations.map(({ id, impact, help, nodes }) =>
        ({ id, impact, help, targets: nodes.map(({ target }) => target.flat().join(" ")) })) }),
    (error) => answer({ error: String(error), violations: [] }));
"#;

/// A rule that the page breaks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// The rule's name, such as `image-alt`.
    pub id: String,
    /// How bad it is.
    pub impact: Impact,
    /// What the rule asks for.
    pub help: String,
    /// The selectors of the elements that break it.
    pub targets: Vec<String>,
}

/// How bad a violation is, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Impact {
    /// A nuisance.
    Minor,
    /// It makes some things hard.
    Moderate,
    /// It makes some things very hard.
    Serious,
    /// It makes some things impossible.
    Critical,
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    violations: Vec<Violation>,
}

/// All that is wrong on the page as it is now. The page's policy does not concern scripts of the driver.
pub async fn violations(client: &Client) -> Result<Vec<Violation>> {
    let path = tools::find()?.axe;
    let axe = std::fs::read_to_string(&path);
    let axe = axe.with_context(|| format!("read {}", path.display()))?;
    let report = client.execute_async(&(axe + RUN), Vec::new()).await;
    let report: Report =
        serde_json::from_value(report.context("run axe")?).context("read axe's report")?;
    ensure!(report.error.is_none(), "axe failed: {:?}", report.error);
    Ok(report.violations)
}

/// What is serious or critical among that.
pub async fn grave_violations(client: &Client) -> Result<Vec<Violation>> {
    let mut violations = violations(client).await?;
    violations.retain(|violation| violation.impact >= Impact::Serious);
    Ok(violations)
}

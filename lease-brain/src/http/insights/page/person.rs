//! Names that people have chosen. Each stands for itself, in whatever direction it is written.

use lease_shared::HolderView;
use maud::{Markup, html};

use super::links::Here;

/// A name.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// Whose it is, each part a link to all of theirs.
pub(super) fn holder_of(here: &Here, holder: &HolderView) -> Markup {
    let project = [("project", holder.project.as_str())];
    let user = [("user", holder.user.as_str())];
    html! {
        a href=(here.holders(&project)) data-f="project" { (name(&holder.project)) }
        " / "
        a href=(here.holders(&user)) data-f="user" { (name(&holder.user)) }
        @if holder.user == here.subject { " " span.quiet { "(you)" } }
    }
}

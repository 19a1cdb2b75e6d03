//! Addresses within a tenant's page.

use form_urlencoded::Serializer;
use lease_shared::{LeaseToken, TenantCounter};

use super::super::page_of;

/// Whose page it is, and who looks at it.
#[derive(Debug, Clone)]
pub(super) struct Here {
    pub(super) tenant: String,
    pub(super) subject: String,
    base: String,
}

impl Here {
    pub(super) fn new(tenant: String, subject: String) -> Self {
        let base = page_of(&tenant);
        Self {
            tenant,
            subject,
            base,
        }
    }

    /// A place below the tenant's page, for example `/holders`.
    pub(super) fn at(&self, place: &str) -> String {
        format!("{}{place}", self.base)
    }

    /// The same with a query, if there is one.
    pub(super) fn asked(&self, place: &str, query: &str) -> String {
        match query {
            "" => self.at(place),
            query => format!("{}?{query}", self.at(place)),
        }
    }

    /// The holders with these values.
    pub(super) fn holders(&self, fields: &[(&str, &str)]) -> String {
        let query = Serializer::new(String::new()).extend_pairs(fields).finish();
        self.asked("/holders", &query)
    }

    pub(super) fn holder(&self, token: &LeaseToken) -> String {
        self.at(&format!("/holders/{token}"))
    }

    /// The holders that may have a slot of this counter.
    pub(super) fn users_of(&self, counter: &TenantCounter) -> String {
        let mut fields = vec![("resource", counter.resource.as_str())];
        fields.extend(counter.project.as_deref().map(|it| ("project", it)));
        fields.extend(counter.user.as_deref().map(|it| ("user", it)));
        self.holders(&fields)
    }
}

#[test]
fn strange_names_stay_inside_their_part_of_an_address() {
    let here = Here::new("a/b?<\"c\"> d".to_owned(), "ada".to_owned());
    assert_eq!(
        here.holders(&[("user", "x&y=\"<script>")]),
        "/insights/a%2Fb%3F%3C%22c%22%3E%20d/holders?user=x%26y%3D%22%3Cscript%3E"
    );
}

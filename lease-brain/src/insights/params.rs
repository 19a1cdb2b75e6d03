//! What is asked for: the query of a URL, for the API, the page and its live updates alike. Absent and empty mean the same,
//! for a form sends all its fields.

use std::fmt::Display;

use form_urlencoded::Serializer;
use lease_shared::{
    CounterQuery, Filter, HolderOrder, HolderQuery, HolderState, InvalidName, Level, Part, PodId,
};
use serde::Deserialize;
use utoipa::IntoParams;

/// Entries on a page, unless asked otherwise, and at most.
pub(crate) const PER_PAGE: u32 = 50;
const MOST: u32 = 100;
/// The last page that can be asked for.
const LAST: u32 = 100_000;

/// A parameter that cannot be taken as it is: its name, its value, and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{name} {value:?} {rule}")]
pub(crate) struct InvalidParam {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) rule: String,
}

/// Which part of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paged {
    pub(crate) page: u32,
    pub(crate) per_page: u32,
}

/// Which holders, in which order.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HolderParams {
    /// On exactly this resource.
    pub(crate) resource: Option<String>,
    /// Of exactly this lease type.
    #[serde(rename = "type")]
    pub(crate) lease_type: Option<String>,
    /// Of exactly this project.
    pub(crate) project: Option<String>,
    /// Of exactly this user.
    pub(crate) user: Option<String>,
    /// Held by the pod of this id.
    pub(crate) pod: Option<String>,
    /// In this state: PENDING, HELD or REVOKING.
    pub(crate) state: Option<String>,
    /// With this text in a name, the holder's own id or the token, whatever its case.
    pub(crate) q: Option<String>,
    /// Whose acquire began longer ago than this, for example `90s` or `2h 30m`.
    pub(crate) older_than: Option<String>,
    /// oldest (the default), newest, expiry, resource, project or user.
    pub(crate) sort: Option<String>,
    /// Which page; the first is 1.
    #[param(value_type = Option<u32>)]
    pub(crate) page: Option<String>,
    /// Entries on a page: 50 unless said otherwise, at most 100.
    #[param(value_type = Option<u32>)]
    pub(crate) per_page: Option<String>,
}

/// Which counters, those with the least room first.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CounterParams {
    /// Of exactly this resource.
    pub(crate) resource: Option<String>,
    /// Of this level: tenant, project or user.
    pub(crate) level: Option<String>,
    /// Of exactly this project.
    pub(crate) project: Option<String>,
    /// Of exactly this user.
    pub(crate) user: Option<String>,
    /// With this text in a name, whatever its case.
    pub(crate) q: Option<String>,
    /// Which page; the first is 1.
    #[param(value_type = Option<u32>)]
    pub(crate) page: Option<String>,
    /// Entries on a page: 50 unless said otherwise, at most 100.
    #[param(value_type = Option<u32>)]
    pub(crate) per_page: Option<String>,
}

/// Which revocations: those that failed first, then those that are tried next.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RevocationParams {
    /// Of exactly this resource.
    pub(crate) resource: Option<String>,
    /// Of exactly this lease type.
    #[serde(rename = "type")]
    pub(crate) lease_type: Option<String>,
    /// With this text in a name, the holder's own id or the token, whatever its case.
    pub(crate) q: Option<String>,
    /// Which page; the first is 1.
    #[param(value_type = Option<u32>)]
    pub(crate) page: Option<String>,
    /// Entries on a page: 50 unless said otherwise, at most 100.
    #[param(value_type = Option<u32>)]
    pub(crate) per_page: Option<String>,
}

/// A parameter: its name, and its value if it was given.
type Field<'a> = (&'static str, &'a Option<String>);

/// What all queries have in common.
pub(crate) trait Params {
    /// All parameters, in the order in which they stand in an address.
    fn fields(&self) -> Vec<Field<'_>>;

    /// Which part of the list.
    fn paged(&self) -> Result<Paged, InvalidParam> {
        let fields = self.fields();
        let of = |name: &'static str, most| {
            let field = fields.iter().find(|(known, _)| *known == name);
            field.map_or(Ok(None), |(_, value)| number(name, value, most))
        };
        Ok(Paged {
            page: of("page", LAST)?.unwrap_or(1),
            per_page: of("perPage", MOST)?.unwrap_or(PER_PAGE),
        })
    }

    /// The query of the URL that asks for this, without what is empty.
    fn to_url_query(&self) -> String {
        let fields = self.fields().into_iter();
        url_query(fields.filter_map(|(name, value)| Some((name, given(value)?))))
    }

    /// The same for another page.
    fn to_url_query_of(&self, page: u64) -> String {
        let page = page.to_string();
        let fields = self.fields().into_iter();
        url_query(fields.filter_map(|(name, value)| match name {
            "page" => Some((name, page.as_str())),
            _ => Some((name, given(value)?)),
        }))
    }

    /// Does it narrow the list at all?
    fn is_filtered(&self) -> bool {
        let narrows = |name: &str| !matches!(name, "sort" | "page" | "perPage");
        let mut fields = self.fields().into_iter();
        fields.any(|(name, value)| narrows(name) && given(value).is_some())
    }
}

impl HolderParams {
    pub(crate) fn query(&self) -> Result<HolderQuery, InvalidParam> {
        let query = self.unchecked()?;
        query.check().map_err(broken)?;
        Ok(query)
    }

    fn unchecked(&self) -> Result<HolderQuery, InvalidParam> {
        let older_than = given(&self.older_than).map(|text| {
            let parsed = crate::args::duration(text);
            parsed.map_err(|error| invalid("olderThan", text, format!("is no time: {error}")))
        });
        Ok(HolderQuery {
            filter: Filter {
                tenant: None,
                project: owned(&self.project),
                user: owned(&self.user),
                resource: owned(&self.resource),
                pod: match given(&self.pod) {
                    Some(pod) => {
                        Some(PodId::new(pod).map_err(|bad| invalid("pod", pod, bad.rule))?)
                    }
                    None => None,
                },
                lease_type: owned(&self.lease_type),
                state: word("state", &self.state, &STATES)?,
            },
            text: owned(&self.q),
            older_than: older_than.transpose()?,
            order: word("sort", &self.sort, &ORDERS)?.unwrap_or_default(),
        })
    }
}

impl Params for HolderParams {
    fn fields(&self) -> Vec<Field<'_>> {
        vec![
            ("resource", &self.resource),
            ("type", &self.lease_type),
            ("project", &self.project),
            ("user", &self.user),
            ("pod", &self.pod),
            ("state", &self.state),
            ("q", &self.q),
            ("olderThan", &self.older_than),
            ("sort", &self.sort),
            ("page", &self.page),
            ("perPage", &self.per_page),
        ]
    }
}

impl CounterParams {
    pub(crate) fn query(&self) -> Result<CounterQuery, InvalidParam> {
        let query = CounterQuery {
            resource: owned(&self.resource),
            level: word("level", &self.level, &LEVELS)?,
            project: owned(&self.project),
            user: owned(&self.user),
            text: owned(&self.q),
        };
        query.check().map_err(broken)?;
        Ok(query)
    }
}

impl Params for CounterParams {
    fn fields(&self) -> Vec<Field<'_>> {
        vec![
            ("resource", &self.resource),
            ("level", &self.level),
            ("project", &self.project),
            ("user", &self.user),
            ("q", &self.q),
            ("page", &self.page),
            ("perPage", &self.per_page),
        ]
    }
}

impl RevocationParams {
    pub(crate) fn query(&self) -> Result<HolderQuery, InvalidParam> {
        let query = HolderQuery {
            filter: Filter {
                resource: owned(&self.resource),
                lease_type: owned(&self.lease_type),
                state: Some(HolderState::Revoking),
                ..Filter::default()
            },
            text: owned(&self.q),
            older_than: None,
            order: HolderOrder::NextTry,
        };
        query.check().map_err(broken)?;
        Ok(query)
    }
}

impl Params for RevocationParams {
    fn fields(&self) -> Vec<Field<'_>> {
        vec![
            ("resource", &self.resource),
            ("type", &self.lease_type),
            ("q", &self.q),
            ("page", &self.page),
            ("perPage", &self.per_page),
        ]
    }
}

impl Paged {
    pub(crate) fn part(self) -> Part {
        Part {
            skip: (self.page - 1).saturating_mul(self.per_page),
            limit: self.per_page,
        }
    }
}

const STATES: [(&str, HolderState); 3] = [
    ("PENDING", HolderState::Pending),
    ("HELD", HolderState::Held),
    ("REVOKING", HolderState::Revoking),
];

const ORDERS: [(&str, HolderOrder); 6] = [
    ("oldest", HolderOrder::Oldest),
    ("newest", HolderOrder::Newest),
    ("expiry", HolderOrder::Expiry),
    ("resource", HolderOrder::Resource),
    ("project", HolderOrder::Project),
    ("user", HolderOrder::User),
];

const LEVELS: [(&str, Level); 3] = [
    ("tenant", Level::Tenant),
    ("project", Level::Project),
    ("user", Level::User),
];

fn url_query<'a>(fields: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// What a form says: a field that was left empty says nothing.
pub(crate) fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

fn owned(value: &Option<String>) -> Option<String> {
    given(value).map(str::to_owned)
}

fn invalid(name: &'static str, value: &str, rule: impl Display) -> InvalidParam {
    InvalidParam {
        name,
        value: value.chars().take(140).collect(),
        rule: rule.to_string(),
    }
}

fn broken(invalid: InvalidName) -> InvalidParam {
    InvalidParam {
        name: invalid.kind,
        value: invalid.value,
        rule: invalid.rule.to_owned(),
    }
}

fn word<T: Copy>(
    name: &'static str,
    value: &Option<String>,
    words: &[(&str, T)],
) -> Result<Option<T>, InvalidParam> {
    let Some(text) = given(value) else {
        return Ok(None);
    };
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, meant)) => Ok(Some(*meant)),
        None => {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let rule = format!("must be one of {}", words.join(", "));
            Err(invalid(name, text, rule))
        }
    }
}

fn number(
    name: &'static str,
    value: &Option<String>,
    most: u32,
) -> Result<Option<u32>, InvalidParam> {
    let Some(text) = given(value) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        _ => Err(invalid(name, text, format!("must be 1 to {most}"))),
    }
}

#[test]
fn another_page_is_asked_for_by_the_same_query() {
    let params = RevocationParams {
        q: Some("a b".to_owned()),
        resource: Some(String::new()),
        page: Some("7".to_owned()),
        per_page: Some("10".to_owned()),
        ..RevocationParams::default()
    };
    assert_eq!(params.to_url_query(), "q=a+b&page=7&perPage=10");
    assert_eq!(params.to_url_query_of(8), "q=a+b&page=8&perPage=10");
    let all = RevocationParams::default();
    assert_eq!(all.to_url_query_of(2), "page=2");
}

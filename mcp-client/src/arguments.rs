//! What a call's arguments become when a server has default ones.

use serde_json::{Map, Number, Value};

/// `given` with those of `defaults` that the tool's `schema` has a property for. A default wins over what was given; an
/// empty text is no default.
///
/// A default that is a text becomes what the property is declared to be (`"true"`, `"3"`, a JSON object as text), where
/// the declaration and the text leave no doubt; else it is passed as it is, for the server to judge.
pub(crate) fn with_defaults(
    defaults: &Map<String, Value>,
    schema: &Value,
    mut given: Map<String, Value>,
) -> Map<String, Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return given;
    };
    for (name, default) in defaults {
        let Some(property) = properties.get(name) else {
            continue;
        };
        match default {
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => {
                let value = coerced(text, property).unwrap_or_else(|| default.clone());
                given.insert(name.clone(), value);
            }
            _ => {
                given.insert(name.clone(), default.clone());
            }
        }
    }
    given
}

/// `text` as the type that `property` declares, if it declares just one (besides null) and the text is one.
fn coerced(text: &str, property: &Value) -> Option<Value> {
    let value = match declared(property)? {
        "boolean" => Value::Bool(text.parse().ok()?),
        "integer" => Value::Number(number(text).filter(|n| n.is_i64() || n.is_u64())?),
        "number" => Value::Number(number(text)?),
        "object" => serde_json::from_str(text).ok().filter(Value::is_object)?,
        "array" => serde_json::from_str(text).ok().filter(Value::is_array)?,
        _ => return None,
    };
    Some(value)
}

fn number(text: &str) -> Option<Number> {
    serde_json::from_str(text).ok()
}

fn declared(property: &Value) -> Option<&str> {
    match property.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let mut names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|n| *n != "null");
            names.next().filter(|_| names.next().is_none())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::with_defaults;

    fn check(defaults: Value, given: Value, expected: Value) {
        let schema = json!({"properties": {
            "text": {"type": "string"}, "flag": {"type": "boolean"}, "count": {"type": "integer"},
            "ratio": {"type": "number"}, "map": {"type": "object"}, "list": {"type": ["array", "null"]},
            "either": {"type": ["string", "integer"]}, "any": {},
        }});
        let (Value::Object(defaults), Value::Object(given)) = (defaults, given) else {
            panic!("arguments are objects");
        };
        assert_eq!(
            Value::Object(with_defaults(&defaults, &schema, given)),
            expected
        );
    }

    #[test]
    fn defaults_fill_what_the_schema_has_and_win() {
        check(json!({}), json!({"text": "a"}), json!({"text": "a"}));
        check(json!({"text": "d"}), json!({}), json!({"text": "d"}));
        check(
            json!({"text": "d"}),
            json!({"text": "a", "x": 1}),
            json!({"text": "d", "x": 1}),
        );
        check(json!({"unknown": "d"}), json!({}), json!({}));
        check(
            json!({"text": ""}),
            json!({"text": "a"}),
            json!({"text": "a"}),
        );
    }

    #[test]
    fn a_text_becomes_what_the_schema_declares_when_there_is_no_doubt() {
        let filled = |defaults, expected| check(defaults, json!({}), expected);
        filled(json!({"flag": "true"}), json!({"flag": true}));
        filled(json!({"flag": "yes"}), json!({"flag": "yes"}));
        filled(json!({"flag": false}), json!({"flag": false}));
        filled(json!({"count": "3"}), json!({"count": 3}));
        filled(json!({"count": "-3"}), json!({"count": -3}));
        filled(json!({"count": "3.0"}), json!({"count": "3.0"}));
        filled(json!({"count": "03"}), json!({"count": "03"}));
        filled(json!({"count": "three"}), json!({"count": "three"}));
        filled(json!({"ratio": "0.5"}), json!({"ratio": 0.5}));
        filled(json!({"ratio": "NaN"}), json!({"ratio": "NaN"}));
        filled(json!({"map": "{\"a\": 1}"}), json!({"map": {"a": 1}}));
        filled(json!({"map": "[1]"}), json!({"map": "[1]"}));
        filled(json!({"map": "{a}"}), json!({"map": "{a}"}));
        filled(json!({"list": "[1]"}), json!({"list": [1]}));
        filled(json!({"text": "3"}), json!({"text": "3"}));
        filled(json!({"either": "3"}), json!({"either": "3"}));
        filled(json!({"any": "3"}), json!({"any": "3"}));
    }

    #[test]
    fn a_tool_without_properties_gets_no_defaults() {
        let defaults = json!({"text": "d"});
        let given = with_defaults(
            defaults.as_object().unwrap(),
            &json!({"type": "object"}),
            Default::default(),
        );
        assert!(given.is_empty());
    }
}

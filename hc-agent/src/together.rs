// SPDX-License-Identifier: Apache-2.0
//! Conditions and groups in the checks file.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::compose::{Condition, Group};
use crate::config::{Check, ConfigError};
use crate::key::Key;
use crate::raw::Object;

/// Checks of a condition, at most.
const MAX_CHECKS: usize = 64;
/// Keys of a group, at most.
const MAX_KEYS: usize = 65_536;
/// Characters of a name, at most.
const MAX_NAME: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCondition {
    #[serde(deserialize_with = "key")]
    key: Key,
    #[serde(deserialize_with = "keys")]
    checks: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGroup {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(deserialize_with = "keys")]
    checks: Vec<Key>,
    #[serde(deserialize_with = "percent")]
    panic_percent: u8,
}

/// Hold conditions and groups against the checks of their file.
pub(crate) fn build(
    checks: &[Arc<Check>],
    conditions: Vec<Object<RawCondition>>,
    groups: Vec<Object<RawGroup>>,
) -> Result<(Vec<Condition>, Vec<Group>), ConfigError> {
    if conditions.is_empty() && groups.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut known: HashSet<Key> = checks.iter().map(|check| check.key).collect();
    for (place, Object(raw)) in conditions.iter().enumerate() {
        let field = format!("conditions[{place}]");
        refer(&format!("{field}.checks"), &raw.checks, MAX_CHECKS, &known)?;
    }
    let mut taken = Vec::with_capacity(conditions.len());
    for (place, Object(raw)) in conditions.into_iter().enumerate() {
        if !known.insert(raw.key) {
            let error = format!("{} is also the key of something else", raw.key);
            return Err(refuse(format!("conditions[{place}].key"), error));
        }
        taken.push(Condition {
            key: raw.key,
            checks: raw.checks.into(),
        });
    }
    let mut names = HashSet::new();
    let mut guarded = Vec::with_capacity(groups.len());
    for (place, Object(raw)) in groups.into_iter().enumerate() {
        let field = format!("groups[{place}]");
        refer(&format!("{field}.checks"), &raw.checks, MAX_KEYS, &known)?;
        if !names.insert(raw.name.clone()) {
            let error = format!("{:?} is also the name of another group", raw.name);
            return Err(refuse(format!("{field}.name"), error));
        }
        guarded.push(Group {
            name: raw.name.into(),
            keys: raw.checks.into(),
            panic_percent: raw.panic_percent,
        });
    }
    Ok((taken, guarded))
}

fn refuse(path: String, error: String) -> ConfigError {
    ConfigError::Field { path, error }
}

/// A list must name what there is, each once.
fn refer(
    path: &str,
    keys: &[Key],
    most: usize,
    known: &HashSet<Key>,
) -> Result<(), ConfigError> {
    if keys.len() > most {
        let error = format!("{} keys, {most} are allowed", keys.len());
        return Err(refuse(path.to_owned(), error));
    }
    let mut seen = HashSet::new();
    for (place, key) in keys.iter().enumerate() {
        let wrong = match (known.contains(key), seen.insert(*key)) {
            (false, _) => "is not the key of a check",
            (true, false) => "is named twice",
            (true, true) => continue,
        };
        return Err(refuse(format!("{path}[{place}]"), format!("{key} {wrong}")));
    }
    Ok(())
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
    String::deserialize(from)?.parse().map_err(Error::custom)
}

fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Key>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    if texts.is_empty() {
        return Err(Error::invalid_length(0, &"at least one key"));
    }
    let parse = |text: String| text.parse().map_err(Error::custom);
    texts.into_iter().map(parse).collect()
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    {
        Ok(text)
    } else {
        Err(Error::custom(
            "a name is 1 to 255 printable ASCII characters without spaces",
        ))
    }
}

fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    match u8::deserialize(from)? {
        percent @ 0..=100 => Ok(percent),
        other => Err(Error::custom(format_args!(
            "{other} is not between 0 and 100"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse_all;

    const CHECKS: &str = r#"{"key": "000000000000000a", "type": "tcp", "address": "198.18.0.1",
        "port": 80, "delay": 5, "timeout": 5, "rise": 3, "fall": 3}"#;

    fn parse(rest: &str) -> Result<(usize, usize), String> {
        let other = CHECKS.replace("000a", "000b");
        let text = format!(r#"{{"version": 1, "checks": [{CHECKS}, {other}], {rest}}}"#);
        let wanted = parse_all(text.as_bytes()).map_err(|e| e.to_string())?;
        Ok((wanted.conditions.len(), wanted.groups.len()))
    }

    const CONDITION: &str = r#""conditions": [{"key": "000000000000000c",
        "checks": ["000000000000000a", "000000000000000b"]}]"#;

    #[test]
    fn conditions_and_groups_are_taken() {
        assert_eq!(parse(CONDITION), Ok((1, 0)));
        let group = r#""groups": [{"name": "p", "panic_percent": 50,
            "checks": ["000000000000000c", "000000000000000a"]}]"#;
        assert_eq!(parse(&format!("{CONDITION}, {group}")), Ok((1, 1)));
        assert_eq!(parse(r#""conditions": [], "groups": []"#), Ok((0, 0)));
    }

    #[test]
    fn wrong_ones_are_refused_by_name() {
        let condition = |old: &str, new: &str| CONDITION.replace(old, new);
        let group = |percent: u32, key: &str, name: &str| {
            let one = format!(
                r#"{{"name": "{name}", "panic_percent": {percent}, "checks": ["{key}"]}}"#
            );
            format!(r#""groups": [{one}, {one}]"#)
        };
        for (text, path, error) in [
            (
                condition("000c", "000b"),
                "conditions[0].key",
                "also the key",
            ),
            (
                condition("000b", "000a"),
                "conditions[0].checks[1]",
                "twice",
            ),
            (
                condition("000b", "000d"),
                "conditions[0].checks[1]",
                "not the key",
            ),
            // A condition of conditions would need an order.
            (
                condition("000b", "000c"),
                "conditions[0].checks[1]",
                "not the key",
            ),
            (condition("000c", "00C"), "conditions[0].key", "a key is"),
            (
                group(101, "000000000000000a", "p"),
                "groups[0].panic_percent",
                "101",
            ),
            (
                group(50, "000000000000000d", "p"),
                "groups[0].checks[0]",
                "not the key",
            ),
            (
                group(50, "000000000000000a", "p"),
                "groups[1].name",
                "another group",
            ),
            (
                group(50, "000000000000000a", "p q"),
                "groups[0].name",
                "printable",
            ),
            (r#""conditions": [7]"#.to_owned(), "conditions[0]", "object"),
        ] {
            let found = parse(&text).unwrap_err();
            assert!(found.starts_with(path) && found.contains(error), "{found}");
        }
    }
}

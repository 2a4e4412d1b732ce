// SPDX-License-Identifier: Apache-2.0
//! Conditions and groups in the checks file.

use std::collections::HashSet;
use std::sync::Arc;

use super::document::{ConditionDocument, GroupDocument, Object};
use super::types::{Check, Condition, ConfigError, Group};
use crate::key::Key;

/// Checks of a condition, at most.
const MAX_CONDITION_CHECKS: usize = 64;
/// Keys of a group, at most.
const MAX_GROUP_KEYS: usize = 65_536;

/// Build conditions and groups, and check that the keys they name exist in their file.
pub(super) fn build(
    checks: &[Arc<Check>],
    conditions: Vec<Object<ConditionDocument>>,
    groups: Vec<Object<GroupDocument>>,
) -> Result<(Vec<Condition>, Vec<Group>), ConfigError> {
    if conditions.is_empty() && groups.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut known: HashSet<Key> = checks.iter().map(|check| check.key).collect();
    for (place, Object(raw)) in conditions.iter().enumerate() {
        let field = format!("conditions[{place}]");
        refer(
            &format!("{field}.checks"),
            &raw.checks,
            MAX_CONDITION_CHECKS,
            &known,
        )?;
    }
    let mut taken = Vec::with_capacity(conditions.len());
    for (place, Object(raw)) in conditions.into_iter().enumerate() {
        if !known.insert(raw.key) {
            let error = format!("{} is also the key of something else", raw.key);
            return Err(ConfigError::field(
                &format!("conditions[{place}].key"),
                &error,
            ));
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
        refer(
            &format!("{field}.checks"),
            &raw.checks,
            MAX_GROUP_KEYS,
            &known,
        )?;
        if !names.insert(raw.name.clone()) {
            let error = format!("{:?} is also the name of another group", raw.name);
            return Err(ConfigError::field(&format!("{field}.name"), &error));
        }
        guarded.push(Group {
            name: raw.name.into(),
            keys: raw.checks.into(),
            panic_percent: raw.panic_percent,
        });
    }
    Ok((taken, guarded))
}

/// Check that a list names existing keys, each once.
pub(super) fn refer(
    path: &str,
    keys: &[Key],
    most: usize,
    known: &HashSet<Key>,
) -> Result<(), ConfigError> {
    if keys.len() > most {
        let error = format!("{} keys, {most} are allowed", keys.len());
        return Err(ConfigError::field(path, &error));
    }
    let mut seen = HashSet::new();
    for (place, key) in keys.iter().enumerate() {
        let wrong = match (known.contains(key), seen.insert(*key)) {
            (false, _) => "is not the key of a check",
            (true, false) => "is named twice",
            (true, true) => continue,
        };
        return Err(ConfigError::field(
            &format!("{path}[{place}]"),
            &format!("{key} {wrong}"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    const CHECKS: &str = r#"{"key": "000000000000000a", "type": "tcp", "address": "198.18.0.1",
        "port": 80, "delay": 5, "timeout": 5, "rise": 3, "fall": 3}"#;

    fn parse(rest: &str) -> Result<(usize, usize), String> {
        let other = CHECKS.replace("000a", "000b");
        let text = format!(r#"{{"version": 1, "checks": [{CHECKS}, {other}], {rest}}}"#);
        let wanted =
            super::super::load::parse(text.as_bytes()).map_err(|e| e.to_string())?;
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
            // Conditions of conditions would need an order of evaluation.
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

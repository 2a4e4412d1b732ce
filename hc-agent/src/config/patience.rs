// SPDX-License-Identifier: Apache-2.0
//! Patience in the checks file: grace periods for checks of members that are moving.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::document::{Object, PatienceDocument};
use super::groups::refer;
use super::types::{Check, ConfigError, Patience};
use crate::key::Key;

/// Checks of one entry, at most.
const MAX_CHECKS: usize = 65_536;

/// Build the patience entries, and check that the keys they name exist in their file.
pub(super) fn build(
    checks: &[Arc<Check>],
    patience: Vec<Object<PatienceDocument>>,
) -> Result<Vec<Patience>, ConfigError> {
    // The usual case.
    if patience.is_empty() {
        return Ok(Vec::new());
    }
    let known: HashSet<Key> = checks.iter().map(|check| check.key).collect();
    let mut taken = Vec::with_capacity(patience.len());
    for (place, Object(raw)) in patience.into_iter().enumerate() {
        let field = format!("patience[{place}].checks");
        refer(&field, &raw.checks, MAX_CHECKS, &known)?;
        taken.push(Patience {
            keys: raw.checks.into(),
            time: Duration::from_secs(raw.seconds),
        });
    }
    Ok(taken)
}

/// The patience of each check: the longest, if several files or entries name it.
pub fn by_key(patience: &[Patience]) -> HashMap<Key, Duration> {
    let mut found = HashMap::new();
    for entry in patience {
        for key in &entry.keys {
            let time = found.entry(*key).or_insert(entry.time);
            *time = entry.time.max(*time);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<Vec<Patience>, String> {
        let check = r#"{"key": "000000000000000a", "type": "tcp", "address": "198.18.0.1",
            "port": 80, "delay": 5, "timeout": 5, "rise": 3, "fall": 3}"#;
        let other = check.replace("000a", "000b");
        let text = format!(r#"{{"version": 1, "checks": [{check}, {other}], {rest}}}"#);
        let file =
            super::super::load::parse(text.as_bytes()).map_err(|e| e.to_string())?;
        Ok(file.patience)
    }

    #[test]
    fn the_longest_patience_holds() {
        let text = r#""patience": [
            {"seconds": 5, "checks": ["000000000000000a", "000000000000000b"]},
            {"seconds": 30, "checks": ["000000000000000b"]},
            {"seconds": 7, "checks": ["000000000000000b"]}]"#;
        let found = by_key(&parse(text).unwrap());
        let of = |number| found[&Key::new(number).unwrap()].as_secs();
        assert_eq!((of(10), of(11)), (5, 30));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let one = |seconds: &str, checks: &str| {
            format!(r#""patience": [{{"seconds": {seconds}, "checks": [{checks}]}}]"#)
        };
        let known = r#""000000000000000a""#;
        for (text, path, error) in [
            (one("0", known), "patience[0].seconds", "between 1 and 3600"),
            (one("3601", known), "patience[0].seconds", "3601"),
            (one("1.5", known), "patience[0].seconds", "1.5"),
            (one("30", ""), "patience[0].checks", "at least one"),
            (
                one("30", r#""000000000000000c""#),
                "patience[0].checks[0]",
                "not the key",
            ),
            (
                one("30", &format!("{known}, {known}")),
                "patience[0].checks[1]",
                "twice",
            ),
            (r#""patience": {}"#.to_owned(), "patience", "sequence"),
            (
                format!(r#""patience": [{{"checks": [{known}]}}]"#),
                "patience[0]",
                "seconds",
            ),
        ] {
            let found = parse(&text).unwrap_err();
            assert!(found.starts_with(path) && found.contains(error), "{found}");
        }
    }
}

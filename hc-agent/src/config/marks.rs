// SPDX-License-Identifier: Apache-2.0
//! Checks whose packets carry a mark (`SO_MARK`). By the mark, the node's routing and
//! programs send a probe the way that traffic takes. Setting one needs a capability.

use std::fmt;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use socket2::{Domain, Socket, Type};

use super::load;
use super::types::{ChecksFile, ConfigError};

/// The error if this thread cannot set a mark.
pub fn error() -> Option<io::Error> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None);
    socket.and_then(|socket| socket.set_mark(1)).err()
}

/// Refuse files with marks if this thread cannot set them: without its mark, a probe
/// would take another path.
pub fn refuse_impossible(file: &ChecksFile) -> Result<(), ConfigError> {
    let marked = file.checks.iter().position(|check| check.mark.is_some());
    match (marked, marked.and_then(|_| error())) {
        (Some(place), Some(error)) => Err(ConfigError::field(
            &format!("checks[{place}].mark"),
            &format!(
                "{error}: marks need CAP_NET_RAW, which the checker gives up at its \
                 start unless its checks file has marks then, or --marks is given"
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether any check of a file has a mark. False for an invalid file.
pub fn in_file(path: &Path) -> bool {
    let Ok(reader) = load::open(path) else {
        return false;
    };
    serde_json::from_reader(reader).is_ok_and(|Marked { checks }| checks.0)
}

#[derive(Deserialize)]
struct Marked {
    checks: AnyMarked,
}

/// Whether any check of a list has a mark; keeps nothing of the list.
struct AnyMarked(bool);

impl<'de> Deserialize<'de> for AnyMarked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Check {
            mark: Option<IgnoredAny>,
        }

        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = AnyMarked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut all: A,
            ) -> Result<AnyMarked, A::Error> {
                let mut any = false;
                while let Some(Check { mark }) = all.next_element()? {
                    any |= mark.is_some();
                }
                Ok(AnyMarked(any))
            }
        }

        from.deserialize_seq(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(mark: &str) -> String {
        let one = r#"{"key": "000000000000000a", "type": "tcp", "address": "198.18.0.1",
            "port": 80, "delay": 5, "timeout": 5, "rise": 3, "fall": 3}"#;
        let other = one.replace("000a", "000b");
        let other = other.replace("3}", &format!("3{mark}}}"));
        format!(r#"{{"version": 1, "checks": [{one}, {other}], "groups": []}}"#)
    }

    #[test]
    fn marks_of_a_file_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checks.json");
        assert!(!in_file(&path));
        for (text, found) in [
            (document(r#", "mark": 7"#), true),
            (document(""), false),
            ("{".to_owned(), false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(in_file(&path), found);
        }
    }

    #[test]
    fn a_mark_is_taken_where_it_can_be_set() {
        let marked = load::parse(document(r#", "mark": 4294967295"#).as_bytes()).unwrap();
        assert_eq!(marked.checks[1].mark.map(u32::from), Some(u32::MAX));
        match (refuse_impossible(&marked), error()) {
            (Ok(()), None) => {}
            (Err(refused), Some(_)) => {
                assert!(refused.to_string().starts_with("checks[1].mark: "));
            }
            other => panic!("{other:?}"),
        }
        let plain = load::parse(document("").as_bytes()).unwrap();
        refuse_impossible(&plain).unwrap();
    }
}

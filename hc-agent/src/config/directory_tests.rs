// SPDX-License-Identifier: Apache-2.0
use std::fs;

use tempfile::TempDir;

use super::{Reader, Reading};

fn check(key: u32, port: u16) -> String {
    format!(
        r#"{{"key": "{key:016x}", "type": "tcp", "address": "198.18.0.1",
        "port": {port}, "delay": 5, "timeout": 5, "rise": 3, "fall": 3}}"#
    )
}

fn document(checks: &[String], more: &str) -> String {
    format!(
        r#"{{"version": 1, "checks": [{}]{more}}}"#,
        checks.join(", ")
    )
}

struct Directory {
    folder: TempDir,
    reader: Reader,
}

impl Directory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let reader = Reader::new(folder.path().to_owned());
        Self { folder, reader }
    }

    fn write(&self, name: &str, text: &str) {
        let temporary = self.folder.path().join(".tmp");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.folder.path().join(name)).unwrap();
    }

    fn read(&mut self) -> Reading {
        self.reader.read().unwrap()
    }

    /// The numbers of all keys, and the names of refused files.
    fn keys(&mut self) -> (Vec<u64>, Vec<String>) {
        let reading = self.read();
        let checks = reading.file.checks.iter().map(|check| check.key.get());
        let conditions = reading.file.conditions.iter();
        let mut keys: Vec<_> = checks.chain(conditions.map(|c| c.key.get())).collect();
        keys.sort_unstable();
        (
            keys,
            reading.refused.into_iter().map(|(name, _)| name).collect(),
        )
    }
}

#[test]
fn equal_checks_of_several_files_are_one() {
    let mut all = Directory::new();
    all.write("a.json", &document(&[check(1, 80), check(2, 81)], ""));
    all.write("b.json", &document(&[check(2, 81), check(3, 82)], ""));
    all.write("notes.txt", "{");
    all.write(".tmp-c.json-x", "{");
    assert_eq!(all.keys(), (vec![1, 2, 3], vec![]));
    fs::remove_file(all.folder.path().join("a.json")).unwrap();
    assert_eq!(all.keys(), (vec![2, 3], vec![]));
}

#[test]
fn a_malformed_file_keeps_what_it_had_and_stops_no_other() {
    let mut all = Directory::new();
    all.write("a.json", &document(&[check(1, 80)], ""));
    all.write("b.json", &document(&[check(2, 80)], ""));
    all.read();
    all.write("a.json", "{");
    all.write("b.json", &document(&[check(3, 80)], ""));
    all.write("c.json", "[]");
    assert_eq!(
        all.keys(),
        (vec![1, 3], vec!["a.json".to_owned(), "c.json".to_owned()])
    );
    // It is reported once, and read again when it changes.
    assert_eq!(all.keys(), (vec![1, 3], vec![]));
    all.write("a.json", &document(&[check(4, 80)], ""));
    assert_eq!(all.keys(), (vec![3, 4], vec![]));
}

#[test]
fn only_what_has_changed_is_new() {
    let mut all = Directory::new();
    all.write("a.json", &document(&[check(1, 80)], ""));
    assert!(all.read().is_new);
    assert!(!all.read().is_new);
    all.write("a.json", &document(&[check(1, 80)], ""));
    assert!(all.read().is_new);
    all.reader.forget_versions();
    assert!(all.read().is_new);
    fs::remove_file(all.folder.path().join("a.json")).unwrap();
    assert!(all.read().is_new);
}

#[test]
fn a_file_that_contradicts_another_is_refused_by_name() {
    let condition = |key: u32, second: u32| {
        format!(
            r#", "conditions": [{{"key": "{key:016x}",
            "checks": ["0000000000000001", "{second:016x}"]}}]"#
        )
    };
    let group = r#", "groups": [{"name": "p", "panic_percent": 50,
        "checks": ["0000000000000001"]}]"#;
    let first = document(
        &[check(1, 80), check(2, 81)],
        &format!("{}{group}", condition(9, 2)),
    );
    for (text, path) in [
        (document(&[check(1, 99)], ""), "checks[0].key"),
        (document(&[check(9, 80)], ""), "checks[0].key"),
        (
            document(&[check(1, 80), check(3, 81)], &condition(9, 3)),
            "conditions[0].key",
        ),
        (
            document(&[check(1, 80), check(3, 81)], &condition(2, 3)),
            "conditions[0].key",
        ),
        (document(&[check(1, 80)], group), "groups[0].name"),
    ] {
        let mut all = Directory::new();
        all.write("b.json", &first);
        all.read();
        // It sorts first, but the file that was accepted earlier wins.
        all.write("a.json", &text);
        let reading = all.read();
        assert_eq!(reading.file.checks.len(), 2, "{text}");
        let (name, error) = &reading.refused[0];
        assert_eq!(name, "a.json");
        assert!(error.to_string().starts_with(path), "{error}");
        // Equal conditions are merged.
        all.write("a.json", &first.replace("\"p\"", "\"q\""));
        assert!(all.read().refused.is_empty());
    }
}

#[test]
fn a_directory_that_is_not_there_is_missing() {
    let mut all = Directory::new();
    fs::remove_dir(all.folder.path()).unwrap();
    assert!(all.reader.read().unwrap_err().is_missing());
}

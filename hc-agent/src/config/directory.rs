// SPDX-License-Identifier: Apache-2.0
//! A directory of checks files, each accepted or refused independently.
//!
//! Only files that have changed are read again. A file is refused if it is malformed or
//! if it contradicts another file about a key or name: its last accepted content stays
//! in use, and all other files are accepted. The checks of a removed file are removed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::load::load_file;
use super::marks;
use super::types::{Check, ChecksFile, Condition, ConfigError};
use crate::key::Key;

/// Suffix of the names of checks files.
const SUFFIX: &str = ".json";

/// Identity of a version of a file: a renamed one has another inode.
type Version = (u64, u64, i64, i64);

/// The file version that the metadata describe.
fn version(meta: &Metadata) -> Version {
    (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

/// Result of reading all files.
#[derive(Debug, Default)]
pub struct Reading {
    /// The merged content of all files.
    pub file: ChecksFile,
    /// Files that were refused, by name, and why.
    pub refused: Vec<(String, ConfigError)>,
    /// Whether anything has changed since the last reading.
    pub is_new: bool,
}

/// Reads a checks file, or a directory of them, repeatedly.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Whether marks that this thread cannot set are an error.
    needs_marks: bool,
    files: BTreeMap<String, Known>,
}

/// State of one file.
#[derive(Debug)]
struct Known {
    version: Version,
    /// The last accepted content.
    taken: Option<Arc<ChecksFile>>,
}

impl Reader {
    /// A reader for probing, which refuses marks that cannot be set. Reads nothing yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            needs_marks: true,
            files: BTreeMap::new(),
        }
    }

    /// A reader for display only.
    pub fn for_display(path: PathBuf) -> Self {
        Self {
            needs_marks: false,
            ..Self::new(path)
        }
    }

    /// Treat all files as changed.
    pub fn forget_versions(&mut self) {
        for known in self.files.values_mut() {
            known.version = Version::default();
        }
    }

    /// Read the files that have changed.
    pub fn read(&mut self) -> Result<Reading, ConfigError> {
        if fs::metadata(&self.path)?.is_dir() {
            return self.read_directory();
        }
        let file = load(&self.path, self.needs_marks)?;
        Ok(Reading {
            file,
            refused: Vec::new(),
            is_new: true,
        })
    }

    fn read_directory(&mut self) -> Result<Reading, ConfigError> {
        let mut reading = Reading::default();
        let present = list(&self.path)?;
        let before = self.files.len();
        self.files.retain(|name, _| present.contains_key(name));
        reading.is_new = self.files.len() < before;
        let mut merged = Merged::default();
        let mut changed = Vec::new();
        for (name, version) in present {
            match self.files.get(&name) {
                Some(known) if known.version == version => {
                    merge_known(&mut merged, known);
                }
                _ => changed.push((name, version)),
            }
        }
        reading.is_new |= !changed.is_empty();
        for (name, version) in changed {
            let known = self.files.entry(name.clone()).or_insert(Known {
                version,
                taken: None,
            });
            known.version = version;
            let read = load(&self.path.join(&name), self.needs_marks);
            let taken = read.and_then(|file| {
                merged.add(&file)?;
                Ok(file)
            });
            match taken {
                Ok(file) => known.taken = Some(Arc::new(file)),
                // It was removed after the listing; the next listing will lack it.
                Err(error) if error.is_missing() => known.version = Version::default(),
                Err(error) => {
                    merge_known(&mut merged, known);
                    reading.refused.push((name, error));
                }
            }
        }
        reading.file = merged.file;
        Ok(reading)
    }
}

fn load(path: &Path, needs_marks: bool) -> Result<ChecksFile, ConfigError> {
    let file = load_file(path)?;
    if needs_marks {
        marks::refuse_impossible(&file)?;
    }
    Ok(file)
}

/// Read a file, or a directory in which every file must be valid.
pub fn load_all(path: &Path) -> Result<ChecksFile, ConfigError> {
    let mut reading = Reader::new(path.to_owned()).read()?;
    if reading.refused.is_empty() {
        return Ok(reading.file);
    }
    let (name, error) = reading.refused.swap_remove(0);
    Err(ConfigError::File {
        name,
        error: Box::new(error),
    })
}

/// Whether any check of a file or directory has a mark. False for unreadable files.
pub fn has_marks(path: &Path) -> bool {
    match list(path) {
        Ok(found) => found.keys().any(|name| marks::in_file(&path.join(name))),
        Err(_) => marks::in_file(path),
    }
}

/// Add the last accepted content, unless another file contradicts it by now.
fn merge_known(merged: &mut Merged, known: &Known) {
    if let Some(file) = &known.taken {
        let _ = merged.add(file);
    }
}

/// The checks files of a directory, by name.
fn list(path: &Path) -> Result<BTreeMap<String, Version>, ConfigError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || !name.ends_with(SUFFIX) {
            continue;
        }
        if let Ok(meta) = fs::metadata(entry.path()) {
            found.insert(name, version(&meta));
        }
    }
    Ok(found)
}

/// The merged content of several files.
#[derive(Default)]
struct Merged {
    file: ChecksFile,
    checks: HashMap<Key, usize>,
    conditions: HashMap<Key, usize>,
    groups: HashSet<Box<str>>,
}

impl Merged {
    /// Add a file, either completely or not at all.
    fn add(&mut self, file: &ChecksFile) -> Result<(), ConfigError> {
        for (place, check) in file.checks.iter().enumerate() {
            let other = self.check(check.key);
            if self.conditions.contains_key(&check.key)
                || other.is_some_and(|other| *other != **check)
            {
                return Err(contradiction("checks", place, check.key));
            }
        }
        for (place, condition) in file.conditions.iter().enumerate() {
            let other = self.condition(condition.key);
            if self.checks.contains_key(&condition.key)
                || other.is_some_and(|other| *other != *condition)
            {
                return Err(contradiction("conditions", place, condition.key));
            }
        }
        for (place, group) in file.groups.iter().enumerate() {
            if self.groups.contains(&group.name) {
                return Err(ConfigError::field(
                    &format!("groups[{place}].name"),
                    &format!("{:?} is also the name of a group elsewhere", group.name),
                ));
            }
        }
        for check in &file.checks {
            self.checks.entry(check.key).or_insert_with(|| {
                self.file.checks.push(Arc::clone(check));
                self.file.checks.len() - 1
            });
        }
        for condition in &file.conditions {
            self.conditions.entry(condition.key).or_insert_with(|| {
                self.file.conditions.push(condition.clone());
                self.file.conditions.len() - 1
            });
        }
        for group in &file.groups {
            self.groups.insert(group.name.clone());
            self.file.groups.push(group.clone());
        }
        self.file.patience.extend_from_slice(&file.patience);
        Ok(())
    }

    fn check(&self, key: Key) -> Option<&Check> {
        self.checks.get(&key).map(|at| &*self.file.checks[*at])
    }

    fn condition(&self, key: Key) -> Option<&Condition> {
        self.conditions
            .get(&key)
            .map(|at| &self.file.conditions[*at])
    }
}

fn contradiction(list: &str, place: usize, key: Key) -> ConfigError {
    ConfigError::field(
        &format!("{list}[{place}].key"),
        &format!("{key} stands for something else in another file"),
    )
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

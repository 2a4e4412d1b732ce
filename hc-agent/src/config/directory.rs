// SPDX-License-Identifier: Apache-2.0
//! A directory of checks files, each taken or refused without the others.
//!
//! Only files that have changed are read again. One that is malformed, or that says
//! something else under a key or name of another file, is refused: what was known of it
//! stays, and all other files are taken. A file that is gone takes its checks along.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::load::load_file;
use super::marks;
use super::types::{Check, ChecksFile, Condition, ConfigError};
use crate::key::Key;

/// What the name of a checks file ends with.
const SUFFIX: &str = ".json";

/// Identity of a version of a file: a renamed one has another inode.
type Version = (u64, u64, i64, i64);

/// The version that these data are of.
fn version(meta: &Metadata) -> Version {
    (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

/// What was found.
#[derive(Debug, Default)]
pub struct Reading {
    /// All that is asked for.
    pub file: ChecksFile,
    /// Files that were refused, by name, and why.
    pub refused: Vec<(String, ConfigError)>,
    /// Whether anything is different from the last reading.
    pub is_new: bool,
}

/// Reads checks again and again: a file, or a directory of them.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Whether marks that this thread cannot set are an error.
    needs_marks: bool,
    files: BTreeMap<String, Known>,
}

/// What is known of a file.
#[derive(Debug)]
struct Known {
    version: Version,
    /// The last content that was taken.
    taken: Option<Arc<ChecksFile>>,
}

impl Reader {
    /// For whoever probes. Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            needs_marks: true,
            files: BTreeMap::new(),
        }
    }

    /// For whoever only wants to know what is asked for.
    pub fn for_display(path: PathBuf) -> Self {
        Self {
            needs_marks: false,
            ..Self::new(path)
        }
    }

    /// Take all files for changed.
    pub fn forget_versions(&mut self) {
        for known in self.files.values_mut() {
            known.version = Version::default();
        }
    }

    /// Read what has changed.
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
                // It went between the listing and now: it is missing next time.
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

/// Read a file, or a directory of which every file is to be right.
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

/// Whether some check of a file, or of one in a directory, has a mark. Says no of what
/// cannot be read.
pub fn has_marks(path: &Path) -> bool {
    match list(path) {
        Ok(found) => found.keys().any(|name| marks::in_file(&path.join(name))),
        Err(_) => marks::in_file(path),
    }
}

/// Add what was taken once; it is left out if another file contradicts it by now.
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

/// Several files as one.
#[derive(Default)]
struct Merged {
    file: ChecksFile,
    checks: HashMap<Key, usize>,
    conditions: HashMap<Key, usize>,
    groups: HashSet<Box<str>>,
}

impl Merged {
    /// Add a file, the whole of it or nothing.
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

// SPDX-License-Identifier: Apache-2.0
//! Reads a checks file, which is accepted or refused as a whole.

use std::fs::File;
use std::io::{BufReader, Read, Take};
use std::path::Path;

use serde::Deserialize;

use super::check_list::CheckList;
use super::document::{
    ConditionDocument, GroupDocument, Object, PatienceDocument, version,
};
use super::groups;
use super::patience;
use super::types::{ChecksFile, ConfigError, MAX_FILE_BYTES};

/// The document as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "version", deserialize_with = "version")]
    _version: (),
    checks: CheckList,
    #[serde(default)]
    conditions: Vec<Object<ConditionDocument>>,
    #[serde(default)]
    groups: Vec<Object<GroupDocument>>,
    #[serde(default)]
    patience: Vec<Object<PatienceDocument>>,
}

/// Read a checks file as a stream: the text of many checks is larger than everything
/// that is kept of them.
pub(super) fn load_file(path: &Path) -> Result<ChecksFile, ConfigError> {
    let reader = open(path)?;
    read(serde_json::Deserializer::from_reader(reader))
}

/// Parse the text of a checks file.
pub fn parse(text: &[u8]) -> Result<ChecksFile, ConfigError> {
    read(serde_json::Deserializer::from_slice(text))
}

/// Open a file that is within the size limit; reading stops there even if it grows.
pub(super) fn open(path: &Path) -> Result<BufReader<Take<File>>, ConfigError> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(ConfigError::TooLong);
    }
    Ok(BufReader::with_capacity(1 << 16, file.take(MAX_FILE_BYTES)))
}

fn read<'de, R: serde_json::de::Read<'de>>(
    mut reader: serde_json::Deserializer<R>,
) -> Result<ChecksFile, ConfigError> {
    let Object(document): Object<Document> =
        serde_path_to_error::deserialize(&mut reader).map_err(|e| {
            ConfigError::field(&e.path().to_string(), &e.inner().to_string())
        })?;
    reader
        .end()
        .map_err(|e| ConfigError::field("document", &e.to_string()))?;
    let checks = document.checks.into_checks()?;
    let (conditions, groups) =
        groups::build(&checks, document.conditions, document.groups)?;
    let patience = patience::build(&checks, document.patience)?;
    Ok(ChecksFile {
        checks,
        conditions,
        groups,
        patience,
    })
}

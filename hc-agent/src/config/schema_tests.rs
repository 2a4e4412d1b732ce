// SPDX-License-Identifier: Apache-2.0
//! Compares the accepted documents with the schema, which the agent tests too.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::Value;

use super::document::{
    CheckDocument, CheckType, ConditionDocument, GroupDocument, HttpDocument,
    PatienceDocument, TlsDocument,
};
use super::load::Document;
use super::{Method, ProbeSpec, Version};

const SCHEMA: &str =
    include_str!("../../../octavia_xdp_provider/contracts/checks.schema.json");

/// The fields of a struct or the variants of an enum, as requested from the deserializer.
struct Names;

#[derive(Debug)]
struct Asked(&'static [&'static str]);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Asked {}

impl Error for Asked {
    fn custom<T: fmt::Display>(text: T) -> Self {
        panic!("{text}")
    }
}

impl<'de> Deserializer<'de> for Names {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        panic!("neither a struct nor an enum")
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(words))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn names<'de, T: Deserialize<'de>>() -> BTreeSet<&'static str> {
    let Err(Asked(names)) = T::deserialize(Names) else {
        panic!("it asked for nothing");
    };
    names.iter().copied().collect()
}

fn fields(definition: &Value) -> BTreeSet<&str> {
    let properties = definition["properties"].as_object().unwrap();
    properties.keys().map(String::as_str).collect()
}

fn words<'a>(schema: &'a Value, definition: &str, name: &str) -> BTreeSet<&'a str> {
    let property = &schema["$defs"][definition]["properties"][name];
    let words = property["enum"].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn fields_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(names::<Document>(), fields(&schema));
    let objects = [
        ("check", names::<CheckDocument>()),
        ("condition", names::<ConditionDocument>()),
        ("group", names::<GroupDocument>()),
        ("http", names::<HttpDocument>()),
        ("patience", names::<PatienceDocument>()),
        ("tls", names::<TlsDocument>()),
    ];
    for (name, known) in &objects {
        assert_eq!(*known, fields(&schema["$defs"][name]), "{name}");
    }
    // The definition of a key has no fields.
    let defined = schema["$defs"].as_object().unwrap();
    assert_eq!(defined.len(), objects.len() + 1);
}

#[test]
fn words_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let types = words(&schema, "check", "type");
    assert_eq!(names::<CheckType>(), types);
    assert_eq!(BTreeSet::from(ProbeSpec::NAMES), types);
    assert_eq!(names::<Method>(), words(&schema, "http", "method"));
    assert_eq!(names::<Version>(), words(&schema, "http", "version"));
}

// SPDX-License-Identifier: Apache-2.0
//! The agent's file about uplinks; `contracts/uplinks-file.json` defines it.

use serde::{Deserialize, Deserializer, Serialize};

/// Name of the file, beside the checks file.
pub const FILE_NAME: &str = "uplinks.json";
/// Name of the socket for asking the agent to check now.
pub const SOCKET_NAME: &str = "uplinks.wakeup";
const VERSION: u64 = 1;

/// State of the uplinks of one family. Times are of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// When this was observed.
    pub as_of_ns: u64,
    /// Since when some uplink worked without a break; `None` if none works.
    #[serde(deserialize_with = "present")]
    pub since_ns: Option<u64>,
}

/// A field that may be null but not missing.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(value)
}

/// State of the uplinks of both families, either of which may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplinks {
    /// IPv4.
    #[serde(rename = "4", default)]
    pub v4: Option<Uplink>,
    /// IPv6.
    #[serde(rename = "6", default)]
    pub v6: Option<Uplink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    families: Uplinks,
}

/// Parse a file; the error is a description.
pub fn parse(text: &[u8]) -> Result<Uplinks, String> {
    let document: Document = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    if document.version != VERSION {
        return Err(format!("version {} is not known", document.version));
    }
    Ok(document.families)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::uplinks::judgement;

    fn contract() -> Value {
        serde_json::from_str(include_str!(
            "../../../octavia_xdp_provider/contracts/uplinks-file.json"
        ))
        .unwrap()
    }

    #[test]
    fn constants_are_those_of_the_contract() {
        let contract = contract();
        assert_eq!(contract["version"], VERSION);
        assert_eq!(contract["names"]["file"], FILE_NAME);
        assert_eq!(contract["names"]["socket"], SOCKET_NAME);
        assert_eq!(contract["answer_max_ms"], judgement::ANSWER_MAX_MS);
        assert_eq!(contract["trust_ms"], judgement::TRUST_MS);
    }

    #[test]
    fn vectors_of_the_contract_are_read_or_refused() {
        let contract = contract();
        let vectors = contract["vectors"].as_array().unwrap();
        assert!(vectors.len() > 5);
        for vector in vectors {
            let found = parse(vector["text"].as_str().unwrap().as_bytes());
            if vector["error"] == true {
                assert!(found.is_err(), "{}", vector["name"]);
                continue;
            }
            let wanted: Uplinks =
                serde_json::from_value(vector["families"].clone()).unwrap();
            assert_eq!(found.as_ref(), Ok(&wanted), "{}", vector["name"]);
        }
    }
}

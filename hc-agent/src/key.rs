// SPDX-License-Identifier: Apache-2.0
//! The name of a check.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Names a check: the first 8 bytes of a hash over its parameters, never zero.
///
/// The writer of the checks file computes it, so equal checks have equal keys and a
/// changed check has a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(NonZeroU64);

impl Key {
    /// The key with this number; `None` for zero.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The key as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A text that is not a key.
#[derive(Debug, thiserror::Error)]
#[error("a key is 16 lower-case hexadecimal digits, not all zero")]
pub struct NotAKey;

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let digits = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(digits) {
            return Err(NotAKey);
        }
        let number = u64::from_str_radix(text, 16).map_err(|_| NotAKey)?;
        Self::new(number).ok_or(NotAKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_as_text_and_as_number() {
        let key: Key = "0123456789abcdef".parse().unwrap();
        assert_eq!(key.get(), 0x0123_4567_89ab_cdef);
        assert_eq!(key.to_string(), "0123456789abcdef");
    }

    #[test]
    fn texts_that_are_no_keys_are_refused() {
        for text in [
            "",
            "0000000000000000",
            "+123456789abcdef",
            "0123456789ABCDEF",
            "1",
        ] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }
}

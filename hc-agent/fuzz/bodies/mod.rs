// SPDX-License-Identifier: Apache-2.0
//! What is tried with each input; shared by cargo-fuzz and the bounded run in the tests.

use octavia_xdp_hc::probe::fuzz_entry;
use octavia_xdp_hc::queue::format;
use octavia_xdp_hc::{config, key::Key};

/// However an answer is cut, it is judged alike, and soon enough.
pub fn http_response(data: &[u8]) {
    let whole = fuzz_entry::http(data, usize::MAX);
    // All bytes are judged again with each piece: long inputs in long pieces only.
    for piece in [1, 7, 512].map(|piece| piece.max(data.len() / 64)) {
        let cut = fuzz_entry::http(data, piece);
        match (whole, cut) {
            (Some((good, status)), Some(found)) => {
                assert_eq!(good, found.0, "{whole:?} and {cut:?} by {piece}");
                // Nonsense may show before the line with the status is whole.
                if good {
                    assert_eq!(status, found.1);
                }
            }
            (None, None) => {}
            // In one piece only what the buffer holds is seen.
            _ => assert!(
                data.len() > 8192 || whole.is_none_or(|(good, _)| !good),
                "{whole:?} and {cut:?} by {piece}"
            ),
        }
    }
}

/// Packets that raw sockets hear.
pub fn packet(data: &[u8]) {
    fuzz_entry::packet(data);
}

/// What is taken keeps its promises.
pub fn checks_file(data: &[u8]) {
    let Ok(file) = config::parse(data) else {
        return;
    };
    let checks = file.into_checks();
    let mut keys: Vec<Key> = checks.iter().map(|check| check.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), checks.len(), "a key twice");
    for check in &checks {
        assert!(!check.delay.is_zero() && !check.timeout.is_zero());
        assert!(check.rise > 0 && check.fall > 0);
    }
}

/// What is taken is what would be written.
pub fn queue_file(data: &[u8]) {
    let Ok(file) = format::decode(data) else {
        return;
    };
    assert_eq!(file.encode(), data);
}

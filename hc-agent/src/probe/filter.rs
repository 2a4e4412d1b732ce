// SPDX-License-Identifier: Apache-2.0
//! Filters of raw sockets: packets for other programs never wake us.

use socket2::SockFilter;

/// A comparison of a filter: an offset after the IP header, and the values.
pub(super) type Field<const N: usize> = (u32, [u32; N]);

/// Accept packets in which a byte has one of two values and a 16-bit number is in a
/// range. (Classic BPF; offsets are relative to the end of the IP header, which only
/// IPv4 sockets deliver.)
pub(super) fn filter(ipv4: bool, byte: Field<2>, half: Field<2>) -> [SockFilter; 9] {
    let header = if ipv4 {
        SockFilter::new(0xb1, 0, 0, 0) // ldxb 4*([0]&0xf)
    } else {
        SockFilter::new(0x01, 0, 0, 0) // ldx #0
    };
    [
        header,
        SockFilter::new(0x50, 0, 0, byte.0), // ldb [x + …]
        SockFilter::new(0x15, 1, 0, byte.1[0]), // jeq
        SockFilter::new(0x15, 0, 4, byte.1[1]), // jeq, else drop
        SockFilter::new(0x48, 0, 0, half.0), // ldh [x + …]
        SockFilter::new(0x35, 0, 2, half.1[0]), // jge, else drop
        SockFilter::new(0x25, 1, 0, half.1[1]), // jgt: drop
        SockFilter::new(0x06, 0, 0, u32::MAX), // ret: take
        SockFilter::new(0x06, 0, 0, 0),      // ret: drop
    ]
}

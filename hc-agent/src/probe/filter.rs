// SPDX-License-Identifier: Apache-2.0
//! Filters of raw sockets: what is for others never wakes us.

use socket2::SockFilter;

/// Numbers that a filter compares: where, after the IP header, and with what.
pub(super) type Field<const N: usize> = (u32, [u32; N]);

/// Keep from us what is for others: one of two values of a byte, and a number of 16
/// bits in a range. (Classic BPF; offsets behind the IP header that only IPv4 shows.)
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

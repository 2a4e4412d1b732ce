# SPDX-License-Identifier: Apache-2.0
"""QUIC's invariants (RFC 8999), as far as they select a member."""

_LONG, _FIXED = 0x80, 0x40
_VERSION_2 = 0x6b3343cf
# One byte of configuration and four of server ID.
_ROUTED = 5


def opens(payload):
    """Whether a UDP payload is an Initial packet."""
    if len(payload) < 5 or not payload[0] & _LONG:
        return False
    version = int.from_bytes(payload[1:5], 'big')
    kind = payload[0] >> 4 & 3
    return bool(version) and kind == (version == _VERSION_2)


def server_id(payload):
    """The server ID in the destination connection ID, or None."""
    if len(payload) < 6:
        return None
    if payload[0] & _LONG:
        if payload[5] < _ROUTED:
            return None
        connection = payload[6:6 + _ROUTED]
    else:
        if not payload[0] & _FIXED:
            return None
        connection = payload[1:1 + _ROUTED]
    if len(connection) < _ROUTED or connection[0] >> 5:
        return None
    return int.from_bytes(connection[1:], 'big')

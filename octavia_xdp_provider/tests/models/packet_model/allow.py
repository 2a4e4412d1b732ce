# SPDX-License-Identifier: Apache-2.0
"""Networks that may use a service, and martian addresses."""

import ipaddress


class Networks:
    """Looks up networks by an address that they contain."""

    def __init__(self, networks: list[tuple[bytes, int]]):
        self._by_length: dict[tuple[int, int], set[int]] = {}
        for address, length in networks:
            bits = 8 * len(address)
            prefix = int.from_bytes(address, 'big') >> (bits - length)
            self._by_length.setdefault((bits, length), set()).add(prefix)

    def find(self, address: bytes) -> tuple[bytes, int] | None:
        """Return a network with the address, as (address, length)."""
        bits = 8 * len(address)
        number = int.from_bytes(address, 'big')
        for (size, length), prefixes in self._by_length.items():
            prefix = number >> (bits - length) if bits == size else None
            if prefix in prefixes:
                return (prefix << (bits - length)).to_bytes(
                    len(address), 'big'), length
        return None

    def __len__(self) -> int:
        return sum(map(len, self._by_length.values()))


_UNSPECIFIED = ipaddress.IPv6Address('::').packed
_LOOPBACK = ipaddress.IPv6Address('::1').packed
_MAPPED = bytes(10) + b'\xff\xff'


def martian(source: bytes, destination: bytes) -> bool:
    if source == destination:
        return True
    if len(source) == 4:
        return source[0] in (0, 127) or source[0] >= 224
    return (source in (_UNSPECIFIED, _LOOPBACK) or source[0] == 0xff or
            source[:12] == _MAPPED)

# SPDX-License-Identifier: Apache-2.0
"""Session persistence by source address: what counts as one client."""

import ipaddress


def prefix(granularity: str) -> tuple[int, int]:
    """Return the prefix that a ``persistence_granularity`` stands for.

    Octavia accepts any address; this provider needs a netmask, such as
    255.255.255.0 or ffff:ffff:ffff:ffff::.

    :returns: (4 or 6, length in bits).
    :raises ValueError: it is not a netmask, or covers all clients.
    """
    mask = ipaddress.ip_address(granularity)
    hosts = ~int(mask) & ((1 << mask.max_prefixlen) - 1)
    if hosts & (hosts + 1) or not int(mask):
        raise ValueError(f'{granularity} is not a netmask')
    return mask.version, mask.max_prefixlen - hosts.bit_length()

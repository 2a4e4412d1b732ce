# SPDX-License-Identifier: Apache-2.0
"""Lists which programs are pinned, and at which interfaces.

The library pins each BPF link as ``links/<hook>-<ifindex>``
(datapath/host/create.c). When its interface is gone, the link is inert, but
its pin stays until it is removed.
"""

import collections.abc
import os
import typing

from octavia_xdp_provider.host import types

# The names that datapath/host/attach.c gives the hooks.
_HOOKS = {'nic': types.Hook.NIC, 'tap-in': types.Hook.TAP_IN,
          'tap-out': types.Hook.TAP_OUT}


class Pin(typing.NamedTuple):
    hook: types.Hook
    ifindex: int


def pins(pin_directory: str) -> frozenset[Pin]:
    """:raises OSError: the pins cannot be listed."""
    try:
        names = os.listdir(os.path.join(pin_directory, 'links'))
    except FileNotFoundError:
        names = []
    return frozenset(_parsed(names))


def _parsed(names: collections.abc.Iterable[str]
            ) -> collections.abc.Iterator[Pin]:
    for name in names:
        hook, _dash, ifindex = name.rpartition('-')
        if hook in _HOOKS and ifindex.isdecimal():
            yield Pin(_HOOKS[hook], int(ifindex))

# SPDX-License-Identifier: Apache-2.0
"""Which programs are pinned at which interfaces.

The library pins the link of each as ``links/<hook>-<ifindex>``
(datapath/host/create.c). A link whose interface is gone holds nothing, and its
pin stays until somebody removes it.
"""

import collections.abc
import os
import typing

from octavia_xdp_provider.host import types

# As datapath/host/attach.c names the hooks.
_HOOKS = {'nic': types.Hook.NIC, 'tap-in': types.Hook.TAP_IN,
          'tap-out': types.Hook.TAP_OUT}


class Pin(typing.NamedTuple):
    hook: types.Hook
    ifindex: int


def pins(pin_directory: str) -> frozenset[Pin]:
    """:raises OSError: they cannot be read."""
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

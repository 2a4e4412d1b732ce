# SPDX-License-Identifier: Apache-2.0
"""The cost of one uncached line of memory on this machine.

Runs ``datapath/bench/host_floor.bpf.c``, loaded by libbpf.
"""

from bench.host import libbpf

LEFT_ALONE = 0xffffffff
WAYS = 8  # flows of a set


class Floor:
    """The program, with a table for that many flows."""

    def __init__(self, flows: int):
        sets = 2
        while sets * WAYS < 2 * flows:  # as in the library
            sets *= 2
        self._object = libbpf.Object('host_floor')
        self._object.resize('sets', sets)
        self._object.load()
        self._object.set_element('mask', sets - 1)
        self.program = self._object.program('oxp_host_floor')

    def run(self, data: bytes) -> int:
        """Return the nanoseconds for a frame."""
        action, duration = self._object.run(self.program, data)
        if action != LEFT_ALONE:
            raise RuntimeError(f'the program returned {action}')
        return duration

    def close(self) -> None:
        self._object.close()

# SPDX-License-Identifier: Apache-2.0
"""What one line of memory costs that no cache has, on this machine.

``datapath/bench/host_floor.bpf.c``, loaded by libbpf.
"""

from bench.host import libbpf

LEFT_ALONE = 0xffffffff
WAYS = 8  # of a set of flows


class Floor:
    """The program, with a table for that many flows."""

    def __init__(self, flows: int):
        sets = 2
        while sets * WAYS < 2 * flows:  # as the library makes it
            sets *= 2
        self._object = libbpf.Object('host_floor')
        self._object.resize('sets', sets)
        self._object.load()
        self._object.set_element('mask', sets - 1)
        self.program = self._object.program('oxp_host_floor')

    def run(self, data: bytes) -> int:
        """Nanoseconds for a frame."""
        action, duration = self._object.run(self.program, data)
        if action != LEFT_ALONE:
            raise RuntimeError(f'the program returned {action}')
        return duration

    def close(self) -> None:
        self._object.close()

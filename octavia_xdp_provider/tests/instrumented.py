# SPDX-License-Identifier: Apache-2.0
"""The binding with the calls that only tests need.

They are in a library of their own, built beside the product's one from the
same objects: datapath/tests/support/test_interface.h says what they do.
Everything else is called in the product's library.
"""

import errno
import os
import pathlib
import typing

from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import library as libraries
from octavia_xdp_provider.node.datapath import DatapathError

BUILT = (pathlib.Path(__file__).parents[2] /
         'datapath/build/liboctavia_xdp.so')


def library_path() -> str:
    """Of the product's library."""
    return os.environ.get(libraries.LIBRARY_VARIABLE) or str(BUILT)


def test_library_path() -> str:
    return str(pathlib.Path(library_path()).parent /
               'tests/liboctavia_xdp_test.so')


class Library(libraries.Library):
    """The test library, and what of it needs no node."""

    def __init__(self):
        super().__init__(test_library_path())

    def maglev(self, members: typing.Mapping[str, int],
               slots: int) -> list[str | None]:
        """The member of each slot, from {member: weight}.

        :param members: ADDRESS, or [ADDRESS]:PORT.
        """
        count = len(members)
        addresses = self.ffi.new('struct oxp_address[]', count)
        ports = self.ffi.new('uint16_t[]', count)
        names = list(members)
        for index, name in enumerate(names):
            address, _, port = name.lstrip('[').partition(']:')
            addresses[index] = self.address(address)[0]
            ports[index] = int(port or 0)
        weights = self.ffi.new('uint16_t[]', list(members.values()))
        out = self.ffi.new('uint16_t[]', slots)
        status = self.api.oxp_test_maglev_ports(
            addresses, ports, weights, count, slots, out)
        if status < 0:
            raise DatapathError(-status, '')
        return [None if index == self.api.OXP_NO_MEMBER else names[index]
                for index in self.ffi.unpack(out, slots)]

    def quic_server_id(self, address: str, port: int = 0) -> int:
        return self.api.oxp_test_quic_server_id(self.address(address), port)


class _TestDatapath(inspection.Inspection):
    """The same node, opened by the test library."""

    def destroy(self):
        self._call('oxp_test_destroy')

    def pick(self, key, client, client_port):
        member = self._ffi.new('struct oxp_address *')
        try:
            self._call('oxp_test_pick', self.library.key(key),
                       self.library.address(client), client_port, member)
        except DatapathError as error:
            if error.errno == errno.ENETUNREACH:
                return None
            raise
        return libraries.text_of(member)

    def run(self, frames):
        size = self._api.OXP_FRAME_MAX
        out = self._ffi.new('struct oxp_frame[]', len(frames))
        alive = []
        for (frame, ifindex), entry in zip(frames, out, strict=True):
            data = self._ffi.from_buffer('uint8_t[]', frame)
            left = self._ffi.new('uint8_t[]', size)
            alive.append((data, left))
            entry.data, entry.length = data, len(frame)
            entry.out, entry.capacity = left, size
            entry.ifindex = ifindex
        count = self._call('oxp_test_run', out, len(frames))
        if count < len(frames):
            text = self._ffi.string(self._error).decode(errors='replace')
            raise DatapathError(errno.EIO, text)
        return [(entry.action,
                 bytes(self._ffi.buffer(entry.out, entry.out_length)))
                for entry in out]


class Datapath(inspection.Inspection):
    """A node, opened by the product's library."""

    def __init__(self, pin_directory: str, lock_file: str, **options):
        self._tests = None
        super().__init__(pin_directory, lock_file, **options)
        self._place = (pin_directory, lock_file)

    def close(self):
        if self._tests is not None:
            self._tests.close()
        super().close()

    @property
    def tests(self) -> _TestDatapath:
        if self._tests is None:
            self._tests = _TestDatapath(*self._place, library=Library())
        return self._tests

    def destroy(self):
        """End forwarding: detach everything and remove the pins."""
        self.tests.destroy()

    def pick(self, key, client: str, client_port: int) -> str | None:
        """Which member a packet of this flow goes to."""
        return self.tests.pick(key, client, client_port)

    def run(self, frames: typing.Sequence[tuple[bytes, int]],
            ) -> list[tuple[int, bytes]]:
        """Run (frame, index of the interface that it came in on) in turn.

        Nothing is sent, but packets are counted and flows remembered.
        Returns (XDP action, frame as it left) of each.
        """
        return self.tests.run(frames)

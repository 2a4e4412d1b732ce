# SPDX-License-Identifier: Apache-2.0
"""``src/format.h`` for Python: structures, enumerations, constants."""

import pathlib
import re

import cffi

from bench import errors

HEADER = pathlib.Path(__file__).with_name('src') / 'format.h'
_HIDDEN = re.compile(r'^#(ifndef|endif|include|define OXT_FORMAT_H).*$',
                     re.MULTILINE)

ffi = cffi.FFI()
ffi.cdef(_HIDDEN.sub('', HEADER.read_text()))
constants = ffi.dlopen(None)


def enumerators(name: str, prefix: str) -> dict[str, int]:
    """Return an enumeration's numbers by lower-case name without prefix."""
    kinds = ffi.typeof(f'enum {name}').relements
    return {key.removeprefix(prefix).lower(): value
            for key, value in kinds.items()}


KINDS = enumerators('kind', 'KIND_')
PROTOCOLS = enumerators('protocol', 'PROTOCOL_')
FOREIGN = {name: value for name, value
           in enumerators('foreign', 'FOREIGN_').items() if name != 'kinds'}


def encoded(structure) -> bytes:
    """Return the bytes of a structure made by `ffi.new`."""
    return bytes(ffi.buffer(structure))


class Reader:
    """Reads consecutive structures.

    :param what: name of the data for errors.
    """

    def __init__(self, data: bytes, what: str):
        self._data, self._what, self._at = data, what, 0

    def bytes(self, length: int) -> bytes:
        """:raises BenchError: fewer bytes are left."""
        end = self._at + length
        if end > len(self._data):
            raise errors.BenchError(
                f'{self._what}: ends after {len(self._data)} bytes, in the '
                'middle of what octavia-xdp-traffic should have written')
        part, self._at = self._data[self._at:end], end
        return part

    def structure(self, name: str):
        """Return a copy of a structure."""
        copy = ffi.new(f'struct {name} *')
        ffi.buffer(copy)[:] = self.bytes(ffi.sizeof(f'struct {name}'))
        return copy

    def head(self, name: str):
        """Return the first structure of a file.

        :raises BenchError: the file is of another version.
        """
        head = self.structure(name)
        if head.version != constants.FORMAT_VERSION:
            raise errors.BenchError(
                f'{self._what}: of version {head.version}, not '
                f'{constants.FORMAT_VERSION}; build octavia-xdp-traffic again '
                'by "make bench-traffic"')
        return head

# SPDX-License-Identifier: Apache-2.0
"""Names and offsets of the running kernel, from its type information (BTF).

The format is Documentation/bpf/btf.rst of Linux.
"""

import struct

PATH = '/sys/kernel/btf/vmlinux'

MAGIC = 0xeb9f
ARRAY, STRUCT, UNION, ENUM, TYPEDEF, ENUM64 = 3, 4, 5, 6, 8, 19
# Modifiers and typedefs: what is of interest is the type that they refer to.
REFERRING = {TYPEDEF, 9, 10, 11, 18}  # volatile, const, restrict, type tag
# Bytes that follow a type: (always, for each of its vlen elements).
_FOLLOWING = {1: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12),
              ENUM: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0),
              ENUM64: (0, 12)}


class BtfError(Exception):
    """The text is no BTF, or lacks what was asked for."""


class Btf:
    """BTF of a kernel.

    :param data: all of it, as in /sys/kernel/btf/vmlinux.
    """

    def __init__(self, data):
        self._data = data
        for order in '<>':
            if data[:2] == struct.pack(f'{order}H', MAGIC):
                break
        else:
            raise BtfError('not BTF: it does not start with its magic number')
        self._order = order
        try:
            length, types, types_length, strings = struct.unpack_from(
                f'{order}4I', data, 4)
            self._strings = length + strings
            self._index(length + types, length + types + types_length)
        except (struct.error, ValueError):
            raise BtfError('BTF ends in the middle') from None

    @classmethod
    def of_kernel(cls, path=PATH):
        with open(path, 'rb') as file:
            return cls(file.read())

    def _index(self, position, end):
        """Where each type is, and where those are that can be asked for."""
        read = struct.Struct(f'{self._order}2I').unpack_from
        self._positions = [0]  # type 0 is void
        self._named = {}
        while position < end:
            name, info = read(self._data, position)
            kind = info >> 24 & 0x1f
            if name and kind in (STRUCT, ENUM, ENUM64):
                self._named.setdefault((kind, self._name(name)), position)
            self._positions.append(position)
            always, each = _FOLLOWING.get(kind, (0, 0))
            position += 12 + always + each * (info & 0xffff)

    def _name(self, offset):
        start = self._strings + offset
        end = self._data.index(b'\0', start)
        return self._data[start:end].decode()

    def _find(self, name, *kinds):
        """Position of the type, or None."""
        return next((self._named[kind, name] for kind in kinds
                     if (kind, name) in self._named), None)

    def enum(self, name):
        """{value: name} of an enumeration.

        :raises BtfError: the kernel has none of that name.
        """
        position = self._find(name, ENUM, ENUM64)
        if position is None:
            raise BtfError(f'the kernel has no enum {name}')
        info, = struct.unpack_from(f'{self._order}I', self._data, position + 4)
        wide = info >> 24 & 0x1f == ENUM64
        signed = info >> 31
        layout = struct.Struct(self._order + ('3I' if wide else '2I'))
        values = {}
        for element in range(info & 0xffff):
            name_at, value, *high = layout.unpack_from(
                self._data, position + 12 + element * layout.size)
            bits = 64 if wide else 32
            if wide:
                value |= high[0] << 32
            if signed and value >> (bits - 1):
                value -= 1 << bits
            values.setdefault(value, self._name(name_at))
        return values

    def offset(self, structure, path):
        """Offset in bytes of a member, as ``offsetof`` tells it.

        :param path: member, or members joined by dots. What lies in unnamed
            structures and unions is found as in C.
        :raises BtfError: no such structure or member.
        """
        position = self._find(structure, STRUCT)
        if position is None:
            raise BtfError(f'the kernel has no struct {structure}')
        total = 0
        for name in path.split('.'):
            found = self._member(position, name) if position else None
            if found is None:
                raise BtfError(
                    f'the kernel\'s struct {structure} has no {path}')
            offset, position = found
            total += offset
        return total

    def _resolve(self, number):
        """Position of a structure or union that a type is in the end."""
        while number:
            position = self._positions[number]
            info, number = struct.unpack_from(
                f'{self._order}2I', self._data, position + 4)
            kind = info >> 24 & 0x1f
            if kind in (STRUCT, UNION):
                return position
            if kind not in REFERRING:
                break
        return None

    def _member(self, position, wanted):
        """(offset, position of its type if that has members) or None."""
        info, = struct.unpack_from(f'{self._order}I', self._data, position + 4)
        for element in range(info & 0xffff):
            name_at, number, bits = struct.unpack_from(
                f'{self._order}3I', self._data, position + 12 + element * 12)
            if info >> 31:  # the upper byte is a bit field's width
                bits &= 0xffffff
            name = self._name(name_at)
            if name == wanted:
                return bits // 8, self._resolve(number)
            if not name and (inner := self._resolve(number)) is not None:
                found = self._member(inner, wanted)
                if found is not None:
                    return bits // 8 + found[0], found[1]
        return None

# SPDX-License-Identifier: Apache-2.0
"""What libbpf knows of the running kernel: its types (BTF) and programs.

bcc itself offers neither: it takes structures from the kernel's headers,
which few nodes have. libbpf comes with bcc, which is linked to it.
"""

import ctypes
import errno
import functools
import os

SONAME = 'libbpf.so.1'

# enum of linux/btf.h, as in Documentation/bpf/btf.rst of Linux.
STRUCT, UNION, ENUM, ENUM64 = 4, 5, 6, 19

_POINTER, _TEXT = ctypes.c_void_p, ctypes.c_char_p
_NUMBER, _ID = ctypes.c_int, ctypes.c_uint32


class BtfError(Exception):
    """The kernel's BTF cannot be read, or lacks what was asked for."""


class _Type(ctypes.Structure):
    """struct btf_type of linux/btf.h."""

    _fields_ = [('name', ctypes.c_uint32), ('info', ctypes.c_uint32),
                ('size', ctypes.c_uint32)]

    @property
    def kind(self):
        return self.info >> 24 & 0x1f

    @property
    def flag(self):
        """Of an enumeration: signed. Of a structure: has bit fields."""
        return self.info >> 31


class _Member(ctypes.Structure):
    """struct btf_member."""

    _fields_ = [('name', ctypes.c_uint32), ('type', ctypes.c_uint32),
                ('offset_bits', ctypes.c_uint32)]


class _Enum(ctypes.Structure):
    """struct btf_enum."""

    _fields_ = [('name', ctypes.c_uint32), ('low', ctypes.c_uint32)]
    high = 0


class _Enum64(ctypes.Structure):
    """struct btf_enum64."""

    _fields_ = [('name', ctypes.c_uint32), ('low', ctypes.c_uint32),
                ('high', ctypes.c_uint32)]


class _ProgramInfo(ctypes.Structure):
    """struct bpf_prog_info of linux/bpf.h, up to the name."""

    _fields_ = [('words', ctypes.c_uint32 * 2), ('tag', ctypes.c_uint8 * 8),
                ('lengths', ctypes.c_uint32 * 2),
                ('instructions', ctypes.c_uint64 * 2),
                ('load_time_ns', ctypes.c_uint64),
                ('created_by_uid', ctypes.c_uint32),
                ('nr_map_ids', ctypes.c_uint32), ('map_ids', ctypes.c_uint64),
                ('name', ctypes.c_char * 16)]


@functools.cache
def library():
    """libbpf, with the types of the functions that are used.

    :raises OSError: it is not installed.
    """
    loaded = ctypes.CDLL(SONAME, use_errno=True)
    for name, result, *arguments in (
            ('btf__load_vmlinux_btf', _POINTER),
            ('btf__parse', _POINTER, _TEXT, _POINTER),
            ('btf__free', None, _POINTER),
            ('btf__find_by_name_kind', _NUMBER, _POINTER, _TEXT, _ID),
            ('btf__type_by_id', ctypes.POINTER(_Type), _POINTER, _ID),
            ('btf__name_by_offset', _TEXT, _POINTER, _ID),
            ('btf__resolve_type', _NUMBER, _POINTER, _ID),
            ('bpf_prog_get_fd_by_id', _NUMBER, _ID),
            ('bpf_obj_get_info_by_fd', _NUMBER, _NUMBER, _POINTER, _POINTER),
            ('libbpf_set_print', _POINTER, _POINTER),
            ('libbpf_strerror', _NUMBER, _NUMBER, _TEXT, ctypes.c_size_t)):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


class Btf:
    """Types of a kernel.

    :param path: of BTF or of an ELF file with it. None: those of the running
        kernel, which libbpf finds in /sys/kernel/btf/vmlinux or, where that
        is missing, in the kernel's image in one of the places where
        distributions put it.
    :raises BtfError: there is none.
    """

    def __init__(self, path=None):
        self._library = library()
        # What libbpf prints of a failure is less than its error number says.
        before = self._library.libbpf_set_print(None)
        try:
            self._btf = (self._library.btf__load_vmlinux_btf() if path is None
                         else self._library.btf__parse(
                             os.fsencode(path), None))
            error = ctypes.get_errno()
        finally:
            self._library.libbpf_set_print(before)
        if not self._btf:
            raise BtfError(self._error(error))

    def __del__(self):
        if getattr(self, '_btf', None):
            self._library.btf__free(self._btf)

    def _error(self, number):
        """Of an errno, or of one of libbpf's own, which are larger."""
        if number == errno.ESRCH:
            return 'libbpf finds none'
        text = ctypes.create_string_buffer(128)
        self._library.libbpf_strerror(number, text, len(text))
        return text.value.decode(errors='replace')

    def _find(self, name, kind):
        """The type's number, or None."""
        number = self._library.btf__find_by_name_kind(
            self._btf, name.encode(), kind)
        return number if number > 0 else None

    def _elements(self, number, layout):
        """The type, and what follows it."""
        found = self._library.btf__type_by_id(self._btf, number)
        after = ctypes.addressof(found.contents) + ctypes.sizeof(_Type)
        count = found.contents.info & 0xffff
        return found.contents, (layout * count).from_address(after)

    def _name(self, offset):
        return self._library.btf__name_by_offset(self._btf, offset).decode()

    def enum(self, name):
        """{value: name} of an enumeration.

        :raises BtfError: the kernel has none of that name.
        """
        layout, bits = _Enum, 32
        number = self._find(name, ENUM)
        if number is None:
            layout, bits = _Enum64, 64
            number = self._find(name, ENUM64)
        if number is None:
            raise BtfError(f'the kernel has no enum {name}')
        enum, elements = self._elements(number, layout)
        values = {}
        for element in elements:
            value = element.high << 32 | element.low
            if enum.flag and value >> (bits - 1):
                value -= 1 << bits
            values.setdefault(value, self._name(element.name))
        return values

    def offset(self, structure, path):
        """Offset in bytes of a member, as ``offsetof`` gives it.

        :param path: member, or members joined by dots. What lies in unnamed
            structures and unions is found as in C.
        :raises BtfError: no such structure or member.
        """
        number = self._find(structure, STRUCT)
        if number is None:
            raise BtfError(f'the kernel has no struct {structure}')
        total_bits = 0
        for name in path.split('.'):
            found = self._member(number, name)
            if found is None:
                raise BtfError(
                    f'the kernel\'s struct {structure} has no {path}')
            offset_bits, number = found
            total_bits += offset_bits
        return total_bits // 8

    def _member(self, number, wanted):
        """(offset in bits, number of its type), or None."""
        structure, members = self._elements(
            self._library.btf__resolve_type(self._btf, number), _Member)
        if structure.kind not in (STRUCT, UNION):
            return None
        for member in members:
            offset_bits = member.offset_bits
            if structure.flag:  # the upper byte is a bit field's width
                offset_bits &= 0xffffff
            name = self._name(member.name)
            if name == wanted:
                return offset_bits, member.type
            if not name and (inner := self._member(member.type, wanted)):
                return offset_bits + inner[0], inner[1]
        return None


def program_name(number):
    """Name of the loaded BPF program, or None if it has none or is gone."""
    descriptor = library().bpf_prog_get_fd_by_id(number)
    if descriptor < 0:
        return None
    try:
        info = _ProgramInfo()
        length = ctypes.c_uint32(ctypes.sizeof(info))
        if library().bpf_obj_get_info_by_fd(
                descriptor, ctypes.byref(info), ctypes.byref(length)):
            return None
        return info.name.decode(errors='replace') or None
    finally:
        os.close(descriptor)

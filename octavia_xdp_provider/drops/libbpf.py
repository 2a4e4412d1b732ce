# SPDX-License-Identifier: Apache-2.0
"""Types (BTF) and programs of the running kernel, by libbpf.

bcc offers neither: it takes structures from the kernel's headers, which few
nodes have. bcc is linked to libbpf, so both are installed together.
"""

import errno
import functools
import os

import cffi

SONAME = 'libbpf.so.1'
# From linux/btf.h, libbpf's btf.h and bpf.h, and linux/bpf.h up to the name.
DEFINITIONS = """
struct btf;
struct btf_type { uint32_t name_off, info, size; };
struct btf_member { uint32_t name_off, type, offset; };
struct btf_enum { uint32_t name_off, low; };
struct btf_enum64 { uint32_t name_off, low, high; };
struct bpf_prog_info {
    uint32_t type, id;
    uint8_t tag[8];
    uint32_t jited_prog_len, xlated_prog_len;
    uint64_t jited_prog_insns, xlated_prog_insns, load_time;
    uint32_t created_by_uid, nr_map_ids;
    uint64_t map_ids;
    char name[16];
};
struct btf *btf__load_vmlinux_btf(void);
struct btf *btf__parse(const char *path, void *none);
void btf__free(struct btf *);
int btf__find_by_name_kind(struct btf *, const char *name, uint32_t kind);
const struct btf_type *btf__type_by_id(struct btf *, uint32_t id);
const char *btf__name_by_offset(struct btf *, uint32_t offset);
int btf__resolve_type(struct btf *, uint32_t id);
int bpf_prog_get_fd_by_id(uint32_t id);
int bpf_obj_get_info_by_fd(int, void *info, uint32_t *length);
void *libbpf_set_print(void *function);
int libbpf_strerror(int, char *text, size_t size);
"""
STRUCT, UNION, ENUM, ENUM64 = 4, 5, 6, 19  # BTF_KIND_…

FFI = cffi.FFI()
FFI.cdef(DEFINITIONS)


class BtfError(Exception):
    """The kernel's BTF cannot be read, or lacks the type or member."""


@functools.cache
def library():
    """Load libbpf.

    :raises OSError: it is not installed.
    """
    return FFI.dlopen(SONAME)


def _kind(btf_type):
    return btf_type.info >> 24 & 0x1f


def _flag(btf_type):
    """Return 1 for a signed enumeration or a structure with bit fields."""
    return btf_type.info >> 31


def _error(number):
    """Return the text of an errno or of libbpf's own, larger numbers."""
    if number == errno.ESRCH:
        return 'libbpf finds none'
    text = FFI.new('char[128]')
    library().libbpf_strerror(number, text, len(text))
    return FFI.string(text).decode(errors='replace')


class Btf:
    """Types of a kernel.

    :param path: file of BTF, or an ELF file that contains it. None: the
        running kernel's, which libbpf finds in /sys/kernel/btf/vmlinux or
        else in the kernel's image, where distributions install it.
    :raises BtfError: there is none.
    """

    def __init__(self, path=None):
        self._library = library()
        # Suppress libbpf's own message: its error number says more.
        before = self._library.libbpf_set_print(FFI.NULL)
        try:
            btf = (self._library.btf__load_vmlinux_btf() if path is None
                   else self._library.btf__parse(os.fsencode(path), FFI.NULL))
            error = FFI.errno
        finally:
            self._library.libbpf_set_print(before)
        if not btf:
            raise BtfError(_error(error))
        self._btf = FFI.gc(btf, self._library.btf__free)

    def _find(self, name, kind):
        """Return the type's number, or None."""
        number = self._library.btf__find_by_name_kind(
            self._btf, name.encode(), kind)
        return number if number > 0 else None

    def _elements(self, number, layout):
        """Return a type and the array of its elements."""
        btf_type = self._library.btf__type_by_id(self._btf, number)
        return btf_type, FFI.cast(f'{layout} *', btf_type + 1)[
            0:btf_type.info & 0xffff]

    def _name(self, offset):
        return FFI.string(
            self._library.btf__name_by_offset(self._btf, offset)).decode()

    def enum(self, name):
        """Return {value: name} of an enumeration.

        :raises BtfError: the kernel has none of that name.
        """
        layout, bits = 'struct btf_enum', 32
        number = self._find(name, ENUM)
        if number is None:
            layout, bits = 'struct btf_enum64', 64
            number = self._find(name, ENUM64)
        if number is None:
            raise BtfError(f'the kernel has no enum {name}')
        enum, elements = self._elements(number, layout)
        values = {}
        for element in elements:
            value = element.low
            if bits == 64:
                value |= element.high << 32
            if _flag(enum) and value >> (bits - 1):
                value -= 1 << bits
            values.setdefault(value, self._name(element.name_off))
        return values

    def offset(self, structure, path):
        """Return the offset in bytes of a member, as ``offsetof`` does.

        :param path: member, or members joined by dots. Unnamed structures and
            unions are searched as in C.
        :raises BtfError: there is no such structure or member.
        """
        number = self._find(structure, STRUCT)
        if number is None:
            raise BtfError(f'the kernel has no struct {structure}')
        total_bits = 0
        for name in path.split('.'):
            member = self._member(number, name)
            if member is None:
                raise BtfError(
                    f'the kernel\'s struct {structure} has no {path}')
            offset_bits, number = member
            total_bits += offset_bits
        return total_bits // 8

    def _member(self, number, wanted):
        """Return (offset in bits, number of its type), or None."""
        structure, members = self._elements(
            self._library.btf__resolve_type(self._btf, number),
            'struct btf_member')
        if _kind(structure) not in (STRUCT, UNION):
            return None
        for member in members:
            offset_bits = member.offset
            if _flag(structure):  # the upper byte is a bit field's width
                offset_bits &= 0xffffff
            name = self._name(member.name_off)
            if name == wanted:
                return offset_bits, member.type
            if not name and (inner := self._member(member.type, wanted)):
                return offset_bits + inner[0], inner[1]
        return None


def program_name(number):
    """Return a BPF program's name; None if it has none or is unloaded."""
    descriptor = library().bpf_prog_get_fd_by_id(number)
    if descriptor < 0:
        return None
    try:
        info = FFI.new('struct bpf_prog_info *')
        length = FFI.new('uint32_t *', FFI.sizeof('struct bpf_prog_info'))
        if library().bpf_obj_get_info_by_fd(descriptor, info, length):
            return None
        return FFI.string(info.name).decode(errors='replace') or None
    finally:
        os.close(descriptor)

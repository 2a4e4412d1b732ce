# SPDX-License-Identifier: Apache-2.0
"""BTF of fictitious kernels, written with libbpf."""

import cffi

from octavia_xdp_provider.drops import libbpf

FFI = cffi.FFI()
FFI.cdef("""
struct btf *btf__new_empty(void);
int btf__set_endianness(struct btf *, int);
const void *btf__raw_data(struct btf *, uint32_t *size);
int btf__add_int(struct btf *, const char *, size_t size, int encoding);
int btf__add_ptr(struct btf *, int type);
int btf__add_typedef(struct btf *, const char *, int type);
int btf__add_struct(struct btf *, const char *, uint32_t size);
int btf__add_union(struct btf *, const char *, uint32_t size);
int btf__add_field(struct btf *, const char *, int type, uint32_t offset,
                   uint32_t width);
int btf__add_enum(struct btf *, const char *, uint32_t size);
int btf__add_enum_value(struct btf *, const char *, int64_t);
int btf__add_enum64(struct btf *, const char *, uint32_t size, bool is_signed);
int btf__add_enum64_value(struct btf *, const char *, uint64_t);
void btf__free(struct btf *);
""")
SIGNED = 1  # BTF_INT_SIGNED


class Writer:
    """Writes types, which are numbered from 1 in the order of calls."""

    def __init__(self):
        self._library = FFI.dlopen(libbpf.SONAME)
        self._btf = FFI.gc(self._library.btf__new_empty(),
                           self._library.btf__free)

    def _call(self, name, *arguments):
        result = getattr(self._library, name)(self._btf, *arguments)
        if result < 0:
            raise ValueError(f'{name}{arguments}: {result}')
        return result

    def int(self, name, size_bytes=4):
        return self._call('btf__add_int', name.encode(), size_bytes, SIGNED)

    def pointer(self, number=0):
        return self._call('btf__add_ptr', number)

    def typedef(self, name, number):
        return self._call('btf__add_typedef', name.encode(), number)

    def composite(self, kind, name, size_bytes, *members):
        """:param kind: struct or union
        :param members: (name, type, offset in bits[, width of a bit field])
        """
        result = self._call(f'btf__add_{kind}', name.encode(), size_bytes)
        for member, number, offset_bits, *width_bits in members:
            self._call('btf__add_field', member.encode(), number, offset_bits,
                       *(width_bits or [0]))
        return result

    def enum(self, name, values):
        """:param values: {name: value}"""
        result = self._call('btf__add_enum', name.encode(), 4)
        for key, value in values.items():
            self._call('btf__add_enum_value', key.encode(), value)
        return result

    def enum64(self, name, values):
        result = self._call('btf__add_enum64', name.encode(), 8,
                            min(values.values()) < 0)
        for key, value in values.items():
            self._call('btf__add_enum64_value', key.encode(),
                       value % (1 << 64))
        return result

    def raw(self, big_endian=False):
        """Return the bytes, as in /sys/kernel/btf/vmlinux."""
        self._call('btf__set_endianness', int(big_endian))
        size = FFI.new('uint32_t *')
        data = self._library.btf__raw_data(self._btf, size)
        return FFI.buffer(data, size[0])[:]

    def write(self, path, **more):
        with open(path, 'wb') as file:
            file.write(self.raw(**more))
        return path


def kernel():
    """Write the part of a kernel's BTF that octavia-xdp-drops reads."""
    writer = Writer()
    word = writer.int('int')
    pointer = writer.pointer()
    inner = writer.composite('struct', '', 8, ('before', word, 0),
                             ('network_header', word, 16))
    union = writer.composite('union', '', 8, ('', inner, 0))
    writer.composite(
        'struct', 'sk_buff', 128, ('dev', pointer, 64), ('', union, 160),
        ('skb_iif', word, 320), ('head', pointer, 512),
        ('data', pointer, 576))
    net = writer.composite('struct', '', 16, ('net', pointer, 64))
    possible = writer.typedef('possible_net_t', net)
    # With a bit field the upper byte of all offsets is a width.
    writer.composite('struct', 'net_device', 64, ('flags', word, 8, 3),
                     ('ifindex', word, 32), ('nd_net', possible, 128))
    common = writer.composite('struct', 'ns_common', 32, ('inum', word, 96))
    writer.composite('struct', 'net', 64, ('ns', common, 64))
    writer.enum('skb_drop_reason', {
        'SKB_NOT_DROPPED_YET': 0, 'SKB_DROP_REASON_NO_SOCKET': 3,
        'SKB_DROP_REASON_SUBSYS_MASK': 0xffff0000})
    writer.enum('skb_drop_reason_subsys', {
        'SKB_DROP_REASON_SUBSYS_CORE': 0,
        'SKB_DROP_REASON_SUBSYS_OPENVSWITCH': 2})
    writer.enum('xdp_action', {'XDP_ABORTED': 0, 'XDP_REDIRECT': 4})
    writer.enum('signed', {'LOW': -1})
    writer.enum64('wide', {'HIGH': (2 << 32) + 1, 'NEGATIVE': -2})
    return writer

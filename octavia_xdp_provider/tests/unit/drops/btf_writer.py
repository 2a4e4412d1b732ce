# SPDX-License-Identifier: Apache-2.0
"""Writes BTF, as Documentation/bpf/btf.rst of Linux describes it."""

import struct

INT, POINTER, STRUCT, UNION, ENUM, TYPEDEF, ENUM64 = 1, 2, 4, 5, 6, 8, 19


class Writer:
    """Types are numbered from 1 in the order in which they are added."""

    def __init__(self, order='<'):
        self._order = order
        self._strings = b'\0'
        self._types = b''
        self._count = 0

    def _pack(self, *numbers):
        return struct.pack(f'{self._order}{len(numbers)}I', *numbers)

    def _string(self, text):
        if not text:
            return 0
        offset = len(self._strings)
        self._strings += text.encode() + b'\0'
        return offset

    def add(self, kind, name='', size=4, elements=(), flag=False, more=()):
        """:param elements: of three words each, or two, after the name's"""
        body = b''.join(self._pack(self._string(one), *words)
                        for one, *words in elements)
        self._types += self._pack(
            self._string(name), flag << 31 | kind << 24 | len(elements),
            size, *more) + body
        self._count += 1
        return self._count

    def finish(self):
        header = struct.pack(
            f'{self._order}HBB5I', 0xeb9f, 1, 0, 24, 0, len(self._types),
            len(self._types), len(self._strings))
        return header + self._types + self._strings


def kernel(order='<'):
    """The little of a kernel's BTF that octavia-xdp-drops asks for."""
    writer = Writer(order)
    word = writer.add(INT, 'int', more=(32,))
    pointer = writer.add(POINTER, size=0)
    inner = writer.add(STRUCT, size=8, elements=[
        ('before', word, 0), ('network_header', word, 16)])
    union = writer.add(UNION, size=8, elements=[('', inner, 0)])
    writer.add(STRUCT, 'sk_buff', size=128, elements=[
        ('dev', pointer, 64), ('', union, 160), ('skb_iif', word, 320),
        ('head', pointer, 512), ('data', pointer, 576)])
    net = writer.add(STRUCT, size=8, elements=[('net', pointer, 64)])
    possible = writer.add(TYPEDEF, 'possible_net_t', size=net)
    # With bit fields the upper byte of an offset is their width.
    writer.add(STRUCT, 'net_device', size=64, flag=True, elements=[
        ('flags', word, 3 << 24 | 8), ('ifindex', word, 32),
        ('nd_net', possible, 128)])
    common = writer.add(STRUCT, 'ns_common', size=32, elements=[
        ('inum', word, 96)])
    writer.add(STRUCT, 'net', size=64, elements=[('ns', common, 64)])
    writer.add(ENUM, 'skb_drop_reason', elements=[
        ('SKB_NOT_DROPPED_YET', 0), ('SKB_DROP_REASON_NO_SOCKET', 3),
        ('SKB_DROP_REASON_SUBSYS_MASK', 0xffff0000)])
    writer.add(ENUM, 'skb_drop_reason_subsys', elements=[
        ('SKB_DROP_REASON_SUBSYS_CORE', 0),
        ('SKB_DROP_REASON_SUBSYS_OPENVSWITCH', 2)])
    writer.add(ENUM, 'xdp_action', elements=[
        ('XDP_ABORTED', 0), ('XDP_REDIRECT', 4)])
    writer.add(ENUM, 'signed', flag=True, elements=[('LOW', 0xffffffff)])
    writer.add(ENUM64, 'wide', size=8, flag=True, elements=[
        ('HIGH', 1, 2), ('NEGATIVE', 0xfffffffe, 0xffffffff)])
    return writer.finish()

# SPDX-License-Identifier: Apache-2.0
"""Drops in the kernel, from the maps of the tracing program."""

import collections
import ipaddress

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.drops import names as kernel_names
from octavia_xdp_provider.drops import program
from octavia_xdp_provider.drops import rows

NO_ERROR = 'NO_ERROR_GIVEN'


def packed(text):
    """Return an address as 16 bytes; IPv4 as IPv4-mapped IPv6."""
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return bytes(10) + b'\xff\xff' + address.packed
    return address.packed


def unpacked(data):
    address = ipaddress.IPv6Address(bytes(data))
    return str(address.ipv4_mapped or address)


class Kernel:
    """Counts drops until it is closed.

    :raises Missing: this machine lacks a requirement.
    """

    def __init__(self):
        bcc = environment.bcc()
        environment.privileges()
        types = environment.types()
        self._names = kernel_names.Names(types)
        self._symbol = bcc.BPF.ksym
        self._program = program.load(bcc, types, environment.tracepoints())
        self._vips = set()
        self._rows = {}  # cached by (table, key), with the names in them

    def watch(self, vips):
        """Set the VIPs whose packets are counted."""
        wanted = set(vips)
        if len(wanted) > program.VIPS_MAX:
            raise environment.Missing(
                f'{len(wanted)} VIPs are more than the {program.VIPS_MAX} '
                f'that can be watched: name some with --vip')
        table = self._program['vips']
        for vip in wanted - self._vips:
            table[self._key(table, vip)] = table.Leaf(1)
        for vip in self._vips - wanted:
            del table[self._key(table, vip)]
        self._vips = wanted

    @staticmethod
    def _key(table, vip):
        key = table.Key()
        key.bytes[:] = packed(vip)
        return key

    def read(self):
        """Return {row: packets} since the start."""
        counters = collections.Counter()
        for table, describe in (('drops', self._drop),
                                ('xdp_drops', self._xdp_drop)):
            for key, count in self._program[table].items():
                identity = bytes(key)
                if (table, identity) not in self._rows:
                    self._rows[table, identity] = describe(key)
                counters[self._rows[table, identity]] += sum(count)
        return counters

    def missed(self):
        """Return how many packets are in no row, because maps were full."""
        return sum(sum(count) for count in self._program['missed'].values())

    def close(self):
        self._program.cleanup()

    def _drop(self, key):
        interface, namespace = self._names.interface(key.ifindex, key.netns)
        symbol = self._symbol(key.location).decode(errors='replace')
        return rows.Row(
            rows.KERNEL, self._names.reason(key.reason),
            where=(symbol if symbol != '[unknown]'
                   else f'{key.location:#x}'),
            vip=unpacked(key.vip.bytes),
            direction='to' if key.to_vip else 'from',
            protocol=self._names.protocol(key.protocol),
            encapsulation=(self._names.protocol(key.encapsulation)
                           if key.encapsulation else None),
            ifindex=key.ifindex or None, interface=interface,
            namespace=namespace)

    def _xdp_drop(self, key):
        action = self._names.action(key.action)
        where = program.EVENTS[key.event]
        if where == program.EXCEPTION:
            reason = action
        else:
            reason = self._names.error(key.error) if key.error else NO_ERROR
        return rows.Row(
            rows.XDP, reason, where=where,
            ifindex=key.ifindex,
            interface=self._names.interface(key.ifindex)[0],
            to_ifindex=key.to_ifindex or None, action=action,
            program_id=key.program or None,
            program=(libbpf.program_name(key.program)
                     if key.program else None))

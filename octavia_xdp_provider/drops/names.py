# SPDX-License-Identifier: Apache-2.0
"""Names of the numbers that the kernel's tracepoints report."""

import errno
import os
import socket

from octavia_xdp_provider.drops import libbpf

SUBSYSTEM_MASK = 0xffff0000
REASON, SUBSYSTEM = 'SKB_DROP_REASON_', 'SKB_DROP_REASON_SUBSYS_'
OWN_NAMESPACE = '/proc/self/ns/net'


class Names:
    """:param types: libbpf.Btf of the running kernel."""

    def __init__(self, types):
        self._reasons = types.enum('skb_drop_reason')
        self._actions = types.enum('xdp_action')
        try:
            self._subsystems = types.enum('skb_drop_reason_subsys')
        except libbpf.BtfError:  # before Linux 6.4
            self._subsystems = {}
        self._protocols = {
            getattr(socket, name): name.removeprefix('IPPROTO_')
            for name in dir(socket) if name.startswith('IPPROTO_')}
        # The socket module has older names of these protocol numbers.
        self._protocols.update({4: 'IPIP', 41: 'IPV6', 47: 'GRE'})
        self.namespace = os.stat(OWN_NAMESPACE).st_ino

    def reason(self, number):
        """Return the name in enum skb_drop_reason, without its prefix."""
        try:
            return self._reasons[number].removeprefix(REASON)
        except KeyError:
            pass
        # Subsystems that can be modules have their own numbers of reasons.
        subsystem = self._subsystems.get((number & SUBSYSTEM_MASK) >> 16)
        if number & SUBSYSTEM_MASK and subsystem:
            return (f'{subsystem.removeprefix(SUBSYSTEM)}_'
                    f'{number & ~SUBSYSTEM_MASK}')
        return str(number)

    def action(self, number):
        return self._actions.get(number, str(number))

    def error(self, number):
        """Return the name of a negative errno."""
        return errno.errorcode.get(-number, str(number))

    def protocol(self, number):
        return self._protocols.get(number, str(number))

    def interface(self, ifindex, namespace=None):
        """Return (name, None), or (None, namespace) for a foreign namespace;
        (None, None) if there is no such interface."""
        if namespace and namespace != self.namespace:
            return None, namespace
        try:
            return socket.if_indextoname(ifindex), None
        except (OSError, OverflowError):
            return None, None

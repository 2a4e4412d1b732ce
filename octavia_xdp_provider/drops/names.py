# SPDX-License-Identifier: Apache-2.0
"""Names of the numbers that the kernel's tracepoints tell."""

import ctypes
import errno
import os
import socket

from octavia_xdp_provider.drops import btf

SUBSYSTEM_MASK = 0xffff0000
REASON, SUBSYSTEM = 'SKB_DROP_REASON_', 'SKB_DROP_REASON_SUBSYS_'
OWN_NAMESPACE = '/proc/self/ns/net'
NAME_LENGTH = 16  # BPF_OBJ_NAME_LEN
# struct bpf_prog_info: type, id, tag[8], jited_prog_len, xlated_prog_len,
# jited_prog_insns, xlated_prog_insns, load_time, created_by_uid,
# nr_map_ids, map_ids, name.
PROGRAM_NAME_OFFSET = 64


class Names:
    """:param types: btf.Btf of the running kernel."""

    def __init__(self, types):
        self._reasons = types.enum('skb_drop_reason')
        self._actions = types.enum('xdp_action')
        try:
            self._subsystems = types.enum('skb_drop_reason_subsys')
        except btf.BtfError:  # before Linux 6.4
            self._subsystems = {}
        self._protocols = {
            getattr(socket, name): name.removeprefix('IPPROTO_')
            for name in dir(socket) if name.startswith('IPPROTO_')}
        # As of IP's next header; socket has older names of the same.
        self._protocols.update({4: 'IPIP', 41: 'IPV6', 47: 'GRE'})
        self.namespace = os.stat(OWN_NAMESPACE).st_ino

    def reason(self, number):
        """Of enum skb_drop_reason, without its prefix."""
        try:
            return self._reasons[number].removeprefix(REASON)
        except KeyError:
            pass
        # Subsystems that can be modules number their reasons themselves.
        subsystem = self._subsystems.get((number & SUBSYSTEM_MASK) >> 16)
        if number & SUBSYSTEM_MASK and subsystem:
            return (f'{subsystem.removeprefix(SUBSYSTEM)}_'
                    f'{number & ~SUBSYSTEM_MASK}')
        return str(number)

    def action(self, number):
        return self._actions.get(number, str(number))

    def error(self, number):
        """Of a negative errno, as the kernel tells it."""
        return errno.errorcode.get(-number, str(number))

    def protocol(self, number):
        return self._protocols.get(number, str(number))

    def interface(self, ifindex, namespace=None):
        """(name, foreign namespace), each None if it is not."""
        if namespace and namespace != self.namespace:
            return None, namespace
        try:
            return socket.if_indextoname(ifindex), None
        except (OSError, OverflowError):
            return None, None


def program_name(library, number):
    """Name of the loaded BPF program, or None if it has none or is gone.

    :param library: ctypes' bcc, which exports libbpf's functions.
    """
    descriptor = library.bpf_prog_get_fd_by_id(ctypes.c_uint32(number))
    if descriptor < 0:
        return None
    try:
        info = ctypes.create_string_buffer(PROGRAM_NAME_OFFSET + NAME_LENGTH)
        length = ctypes.c_uint32(len(info))
        if library.bpf_obj_get_info_by_fd(
                ctypes.c_int(descriptor), info, ctypes.byref(length)):
            return None
        name = info.raw[PROGRAM_NAME_OFFSET:].split(b'\0')[0]
        return name.decode(errors='replace') or None
    finally:
        os.close(descriptor)

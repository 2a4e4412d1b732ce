# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's library, and conversions for its calls."""

import os
import typing
import uuid

from octavia_xdp_provider.host import types
from octavia_xdp_provider.process import shared_library
from octavia_xdp_provider.process.shared_library import mac
from octavia_xdp_provider.process.shared_library import network_of
from octavia_xdp_provider.process.shared_library import text_of
from octavia_xdp_provider.process.shared_library import text_or_none

API_VERSION = 6
LIBRARY = 'liboctavia_xdp_host.so.10'
LIBRARY_VARIABLE = 'OCTAVIA_XDP_HOST_LIBRARY'


class HostError(shared_library.LibraryError):
    """An error of the library, with its errno and text."""


class Library(shared_library.Library):
    """The loaded shared library, its parsed header, and conversions."""

    prefix = 'oxh'

    def __init__(self, path: str | None = None) -> None:
        super().__init__(path or os.environ.get(LIBRARY_VARIABLE) or LIBRARY,
                         API_VERSION, HostError)

    def call(self, function: typing.Any, *arguments: typing.Any) -> int:
        """:raises HostError: the library's error."""
        error = self.ffi.new('char[]', self.api.OXH_ERROR_LENGTH)
        status: int = function(*arguments, error)
        if status < 0:
            raise HostError(-status, self.ffi.string(error).decode())
        return status

    def listed(self, function: typing.Any, kind: str,
               *arguments: typing.Any) -> list[typing.Any]:
        """Return all elements of a list that may grow between calls."""
        room = 64
        while True:
            out = self.ffi.new(f'{kind}[]', room)
            count = self.call(function, *arguments, out, room)
            if count <= room:
                return list(out[0:count])
            room = count + 64

    def rule(self, wanted: types.Rule) -> typing.Any:
        out = self.ffi.new('struct oxh_rule *')
        out.family = wanted.family
        everything = '0.0.0.0/0' if wanted.family == 4 else '::/0'
        out.remote = self.network(wanted.remote or everything)[0]
        out.set = wanted.address_set
        out.port_min, out.port_max = wanted.ports
        out.protocol = types.PROTOCOLS[wanted.protocol] if (
            wanted.protocol) else 0
        return out

    def entry(self, wanted: types.Entry) -> typing.Any:
        out = self.ffi.new('struct oxh_entry *')
        out.key = wanted.key
        out.port_id = uuid.UUID(wanted.port_id).bytes
        out.vip = self.address(wanted.vip)[0]
        out.fixed = self.address(wanted.fixed)[0]
        out.vip_port, out.port = wanted.vip_port, wanted.port
        out.protocol = types.PROTOCOLS[wanted.protocol]
        out.mac = mac(wanted.mac)
        out.gateway_mac = mac(wanted.gateway_mac)
        out.mss = wanted.mss
        return out


def mac_text(data: typing.Any) -> str:
    return bytes(data).hex(':')


def uuid_text(data: typing.Any) -> str:
    return str(uuid.UUID(bytes=bytes(data)))


def entry_of(out: typing.Any) -> types.EntryState:
    return types.EntryState(
        types.Entry(out.key, uuid_text(out.port_id), text_of(out.vip),
                    out.vip_port, text_of(out.fixed), out.port,
                    types.PROTOCOL_NAMES[out.protocol], mac_text(out.mac),
                    mac_text(out.gateway_mac), out.mss),
        out.packets_in, out.bytes_in, out.packets_out, out.bytes_out,
        out.flows, out.drops)


def port_of(out: typing.Any) -> types.PortState:
    return types.PortState(uuid_text(out.id), out.ifindex, bool(out.open),
                           out.flows_max, out.flows, out.rules)


def flow_of(out: typing.Any) -> types.Flow:
    return types.Flow(
        text_of(out.client), out.client_port, out.key,
        uuid_text(out.port_id), out.idle, bool(out.answered),
        bool(out.closing), bool(out.direct), bool(out.outdated))


def rule_of(out: typing.Any) -> types.Rule:
    return types.Rule(
        out.family,
        types.PROTOCOL_NAMES.get(out.protocol, str(out.protocol))
        if out.protocol else None,
        (out.port_min, out.port_max),
        None if out.set else network_of(out.remote), out.set)


def settings_of(out: typing.Any) -> types.Settings:
    return types.Settings(
        out.reply_ifindex, text_or_none(out.local_v4),
        text_or_none(out.local_v6), text_or_none(out.sid),
        out.tcp_idle, out.udp_idle, out.closing_idle, out.half_open_idle)

# SPDX-License-Identifier: Apache-2.0
"""Hooks that receive the model's decisions on a packet, step by step.

The methods are called in the order of the decisions, with what each decision
was based on. Those of the base class do nothing.
"""

from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state


class Observer:

    def ignored(self, why: parse.Ignored):
        """The frame is left to the kernel unparsed."""

    def packet(self, packet: parse.Packet):
        """The frame is an IP packet; it may be malformed."""

    def vip(self, packet: parse.Packet,
            services: list[state.Service] | None):
        """The services of its destination; None if that is no VIP."""

    def malformed(self, why: str):
        """Its headers are wrong."""

    def service(self, service: state.Service):
        """The service of its protocol and port."""

    def no_service(self, protocol: int, port: int | None):
        """The VIP has no service for them; port None: for the protocol."""

    def tunnel(self, protocol: int):
        """It is a tunnel packet; UDP stands for GUE and Geneve."""

    def left(self, protocol: int, fragment: bool):
        """The protocol is left to the kernel."""

    def martian(self, source: bytes):
        """Neither a client nor a router can have this source."""

    def allowed(self, service: state.Service, source: bytes,
                network: tuple[bytes, int] | None):
        """The source is in this allowed network; None: in none."""

    def rate(self, service: state.Service, tokens: int):
        """The source may open `tokens` / 1024 flows now."""

    def quic(self, server: bytes | None, found: bool):
        """The server ID in a connection ID, if any, and whether it is that
        of a member that keeps flows."""

    def slot(self, service: state.Service, slot):
        """The select.Slot of the flow."""

    def remembered(self, service: state.Service, entry, age: int):
        """The flows.Entry of a flow in an open slot, or None; age in units."""

    def choice(self, service: state.Service, member: int, why: str):
        """The member of an open slot."""

    def beyond_limit(self, service: state.Service):
        """The service has reached its connection limit on this node."""

    def first_fragment(self):
        """Later fragments will follow this one."""

    def followed(self, packet: parse.Packet, service: state.Service,
                 member: int):
        """A later fragment, and the member of the first one."""

    def not_followed(self, packet: parse.Packet):
        """A later fragment; the member of the first one is unknown."""

    def echo(self, answered: bool):
        """An echo request; whether this node answers them at all."""

    def answer(self, rate: int):
        """The node answers if its budget allows."""

    def icmp(self, kind: int):
        """An ICMP type that is left to the kernel."""

    def error(self, quoted):
        """An ICMP error about the icmp.Quoted; None: no flow of the VIP."""

    def member(self, service: state.Service, member: int):
        """The member that gets the packet; NOBODY: none."""

    def alternative(self, service: state.Service, member: int):
        """The packet also names this member, which may have its flow."""

    def port(self, service: state.Service, member: state.Member):
        """The member's port replaces that of the service."""

    def no_source(self, family: int):
        """The node has no outer source address of this family."""

    def routes(self):
        """The next hop is looked up in the kernel's routes."""

    def uplink(self, family: int, uplink: state.Uplink | None, choice: int):
        """The uplink for the top six bits of the entropy; None: it has no next
        hop of the outer family."""

    def size(self, size: int, overhead: int, mtu: int):
        """Bytes of the packet with padding and of the outer header, and the
        MTU of the path."""

    def too_big(self, packet: parse.Packet, passed: bool,
                limit: int | None):
        """It is passed to the kernel, or dropped: the client is told the MTU
        `limit`, or nothing if that is None."""


NOBODY = Observer()

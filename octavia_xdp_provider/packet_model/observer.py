# SPDX-License-Identifier: Apache-2.0
"""What the model decides, step by step, for whoever wants to know.

The methods are called in the order of the decisions on one packet, each with
what it was decided by. These do nothing.
"""

from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state


class Observer:

    def ignored(self, why: parse.Ignored):
        """The frame is left to the kernel unseen."""

    def packet(self, packet: parse.Packet):
        """The frame is an IP packet; it may be malformed."""

    def vip(self, packet: parse.Packet,
            services: list[state.Service] | None):
        """The services of its destination; None: it is no VIP."""

    def malformed(self, why: str):
        """Its headers are wrong."""

    def service(self, service: state.Service):
        """The service of its protocol and port."""

    def no_service(self, protocol: int, port: int | None):
        """The VIP has none for them; port None: for no port at all."""

    def tunnel(self, protocol: int):
        """It is a tunnel; UDP stands for GUE and Geneve."""

    def left(self, protocol: int, fragment: bool):
        """The protocol is left to the kernel."""

    def martian(self, source: bytes):
        """No client, or no router, has this source."""

    def allowed(self, service: state.Service, source: bytes,
                network: tuple[bytes, int] | None):
        """The source is in this network of the service's; None: in none."""

    def rate(self, service: state.Service, tokens: int):
        """The source may open `tokens` / 1024 flows now."""

    def quic(self, server: bytes | None, found: bool):
        """A server ID of a connection ID, if there is one, and whether it
        is a member's that keeps flows."""

    def slot(self, service: state.Service, slot):
        """The select.Slot of the flow."""

    def remembered(self, service: state.Service, entry, age: int):
        """The flows.Entry of a flow in an open slot, or None; age in units
        of time."""

    def choice(self, service: state.Service, member: int, why: str):
        """The member of an open slot."""

    def beyond_limit(self, service: state.Service):
        """The service has as many connections here as it may have."""

    def first_fragment(self):
        """Later fragments will follow this one."""

    def followed(self, packet: parse.Packet, service: state.Service,
                 member: int):
        """A later fragment, and where the first went."""

    def not_followed(self, packet: parse.Packet):
        """A later fragment; where the first went is not known."""

    def echo(self, answered: bool):
        """An echo request; whether this node answers them at all."""

    def answer(self, rate: int):
        """The node answers, as long as its budget lasts."""

    def icmp(self, kind: int):
        """A type of ICMP that is left to the kernel."""

    def error(self, quoted):
        """An ICMP error about the icmp.Quoted, or None: about no flow of the
        VIP's."""

    def member(self, service: state.Service, member: int):
        """The member that takes the packet; NOBODY: none does."""

    def alternative(self, service: state.Service, member: int):
        """The packet names this member, who may have its flow, too."""

    def port(self, service: state.Service, member: state.Member):
        """The member's port takes the place of the service's."""

    def no_source(self, family: int):
        """The node has no outer source of this family."""

    def routes(self):
        """The kernel's routes are asked for the next hop."""

    def uplink(self, family: int, uplink: state.Uplink | None, choice: int):
        """The uplink for the top six bits of the entropy; None: none has a
        next hop of the outer family."""

    def size(self, size: int, overhead: int, mtu: int):
        """Bytes of the packet with padding, of the outer header, and what
        the path takes."""

    def too_big(self, packet: parse.Packet, passed: bool,
                limit: int | None):
        """It is left to the kernel, or the client is sent the MTU `limit`;
        None: it is dropped without an answer."""


NOBODY = Observer()

# SPDX-License-Identifier: Apache-2.0
"""The model without a program: is the model what scapy expects?

For work on the model, without root: OCTAVIA_XDP_PACKETS=model.
"""

import itertools

from octavia_xdp_provider.packet_model import forward
from octavia_xdp_provider.packet_model import nat
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import environment


class ModelOnly(compared.Compared):

    def __init__(self, node: state.Node, *, slots: int = 257, **unused):
        self.slots = slots
        self.services = []
        self.members = {}
        self.ran = 0
        self.pools = []
        self.peers = ()
        self.ports = itertools.count(1024)
        self.reset(node)

    def close(self):
        pass

    def reset(self, node: state.Node):
        self.services.clear()
        self.node = node
        node.seed, node.flow_sets = 0x0123456789abcdef, 8
        self.model = forward.Forwarder(node)
        self._begin_nat()
        self.set_node()

    def set_pools(self, pools):
        self.pools = pools

    def set_peers(self, peers):
        self.peers = peers

    def change_peers(self, peers):
        self.peers = peers
        self.model.peers.addresses[:] = peers

    def _allocated(self, service, client, member):
        for address, _ in self.pools:
            if len(address) == len(member.address):
                return nat.End(address, next(self.ports))
        return None

    def nat_flow(self, service, client, port):
        return self.model.nat.of_client(
            service.protocol, nat.End(client, port),
            nat.End(service.vip, service.port))

    def active(self, service):
        return self.model.nat.active(service)

    def set_node(self):
        for family in (state.IPV4, state.IPV6):
            usable = [index for index, one in enumerate(self.node.uplinks)
                      if one.gateway.get(family) is not None]
            self.node.choice[family] = [
                usable[index % len(usable)] if usable else None
                for index in range(64)]

    def set_service(self, service, members, refresh=True):
        if service not in self.services:
            service.index = len(self.services)
            self.services.append(service)
        self.members[id(service)] = members
        self.refresh()

    def set_health(self, members):
        self.refresh()

    def delete_service(self, service):
        self.services.remove(service)
        self.refresh()

    def _read_node(self):
        pass

    def _read(self, service):
        members = self.members[id(service)]
        service.members = dict(enumerate(members))
        index = {one.name: place for place, one in enumerate(members)}
        table = compared.wanted_table(members, self.slots)
        service.now = [state.NOBODY if one is None else index[one]
                       for one in table]
        service.open, service.before = set(), []
        for one in members:
            one.takes_flows = one in compared.takers(members)

    def run(self, frames):
        self.ran += len(frames)
        return [self.model.forward(frame, environment.LOOPBACK,
                                   compared.clock()) for frame in frames]

    def compare_counters(self):
        pass

# SPDX-License-Identifier: Apache-2.0
"""What an LB node has of one load balancer, as octavia-xdp-ctl shows it."""

import dataclasses
import json

from lab.fabric import nodes
from octavia_xdp_provider.contracts import spec


@dataclasses.dataclass(frozen=True)
class Listener:
    """A service of a listener at one VIP.

    :param settings: datapath.Settings, without ``allowed``.
    :param allowed: networks of its clients; none: everybody.
    :param members: (address, port) → what octavia-xdp-ctl shows of it and a
        configuration says, thus not its health nor its counters.
    """

    protocol: str
    settings: object
    allowed: tuple
    members: dict


@dataclasses.dataclass(frozen=True)
class NodeView:
    """:param listeners: (VIP, port) → Listener; checks: of its file."""

    listeners: dict
    checks: list

    @property
    def vips(self):
        return {vip for vip, _port in self.listeners}

    def listener(self, port):
        """The one of any VIP: all have it alike. None: there is none."""
        return next((
            listener for (_vip, number), listener in self.listeners.items()
            if number == port), None)

    def member(self, port):
        """The only member of a listener: its address and port, and it."""
        member, = self.listener(port).members.items()
        return member


def look(case, node, document):
    """What a node has of a load balancer now.

    :param case: an e2e.support.base.LabTestCase.
    :param document: the wanted state, for its id and VIPs.
    """
    vips = spec.vips(document)
    listeners = {}
    with case.datapath(node) as opened:
        for service in opened.services():
            key = service.key
            if key.address in vips:
                listeners[key.address, key.port] = Listener(
                    key.protocol, service.settings,
                    tuple(opened.allowed(key)), {
                        tuple(state.name): (state.weight, state.backup,
                                            state.admin_up, bool(state.check))
                        for state in opened.members(key)})
    path = (nodes.run_directory(case.lab, node) / 'checks'
            / f'{document["id"]}.json')
    checks = []
    if path.exists():
        checks = [{name: value for name, value in check.items()
                   if name != 'key'}
                  for check in json.loads(path.read_text())['checks']]
    return NodeView(listeners, checks)

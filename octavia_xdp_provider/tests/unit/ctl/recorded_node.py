# SPDX-License-Identifier: Apache-2.0
"""A node whose tables and simulated runs are recorded values.

What the real program records, functional tests show.
"""

import contextlib

from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import types

UPLINK = types.Uplink(7, 1500, '02:00:00:00:00:01', '02:00:00:00:00:03',
                      '02:00:00:00:00:03')
SLOTS = 64
TAG = '0123456789abcdef'
COUNTERS = types.Counters(0, 0, 0)
NOBODY = 0x7fff


class Links:

    def name(self, ifindex):
        return {UPLINK.ifindex: 'up0'}.get(ifindex, f'#{ifindex}')


class Node:
    """``runs``: what the simulation makes of frames, in turn."""

    tag = TAG

    def __init__(self):
        self.settings = types.NodeSettings(
            '10.0.0.0', 'fd00::1', entropy_v4=4, icmp_rate=1000,
            flags=types.NodeFlag.ECHO | types.NodeFlag.CLAMP_MSS)
        self.found, self.states, self.networks = {}, {}, {}
        self.runs = []

    def add(self, key, *members, allowed=(), **settings):
        settings = types.Settings(slots=SLOTS, **settings)
        self.found[key] = types.Service(
            key, len(self.found), SLOTS, len(members), len(members), 1,
            COUNTERS, 0, settings)
        self.states[key] = [
            types.MemberState(address, 1, 1, True, True, True, COUNTERS,
                              takes_flows=True, index=index)
            for index, address in enumerate(members)]
        self.networks[key] = list(allowed)

    # Queries of explain

    def services(self):
        return list(self.found.values())

    def members(self, key):
        return self.states[key]

    def allowed(self, key):
        return self.networks[key]

    def node_settings(self):
        return self.settings

    def uplinks(self):
        return [UPLINK], inspection.Choices((0,) * 64, (0,) * 64)

    @contextlib.contextmanager
    def simulation(self):
        runs = iter(self.runs)
        self.run = lambda frame, ifindex: next(runs)
        yield self


def run(*decisions, outcome=None, action=3, frame=b''):
    """:param decisions: names with their arguments, as 'SLOT 5 64 0 0 1 0'.
    """
    decided = []
    for text in decisions:
        name, *arguments = text.split()
        decided.append(inspection.decided(
            types.Decision[name], [int(word, 0) for word in arguments]))
    return inspection.Run(action, frame, {outcome: 1} if outcome else {},
                          tuple(decided))

# SPDX-License-Identifier: Apache-2.0
"""NAT: the program against the model, with random and mutated frames of
clients, members, routers and peers, while services, members and the node
change, and until what NAT alone knows has occurred.
"""

import os
import random
import unittest

from octavia_xdp_provider.tests.models.packet_model import nat_peers
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support import nat_peers_case
from octavia_xdp_provider.tests.packets.support import nat_scenario
from octavia_xdp_provider.tests.packets.support import random_case
from octavia_xdp_provider.tests.packets.support import split_frames

Outcome = state.Outcome


# Without bpf_xdp_pull_data() what happens depends on how a frame is split.
needs_pull = unittest.skipIf(
    tuple(map(int, os.uname().release.split('.')[:2])) < (6, 18),
    'needs Linux 6.18')


def handed_on(frame: bytes) -> tuple[int, nat_peers.Kind]:
    """(protocol, kind) of what goes to a peer."""
    outer = parse.parse(frame)
    _, _, _, kind, _ = nat_peers.GRE.unpack_from(frame, outer.transport)
    length = outer.transport + nat_peers.GRE.size - outer.network
    inner = parse.parse(nat_peers.Peers.inside(
        outer, nat_peers.Handed(kind, 0, b'', length)))
    return inner.protocol, nat_peers.Kind(kind)


class SplitNat(split_frames.SplitFrames, nat_scenario.NatCompared):
    pass


class TestNat(random_case.RandomCase):

    KIND: type[nat_scenario.NatCompared] = nat_scenario.NatCompared
    STEPS = 12  # so few that no flow ends by its age
    PART = 0.5
    WANTED = frozenset((
        Outcome.DROP_NO_NAT_FLOW, Outcome.DROP_TTL,
        Outcome.DROP_NAT_UNTRANSLATABLE, Outcome.DROP_CONNECTION_LIMIT,
        Outcome.DROP_FRAGMENT, Outcome.DROP_ICMP, Outcome.SENT_TOO_BIG,
        Outcome.ECHO_REPLY, Outcome.SENT_RESET))

    def setUp(self):
        super().setUp()
        self.compared.set_pools(list(nat_cases.POOLS))

    def start(self, seed, batch):
        self.compared.rng = random.Random(seed)
        return nat_scenario.NatScenario(self.compared, seed)


@needs_pull
class TestSplit(TestNat):
    """Each frame that may be is in several buffers."""

    KIND = SplitNat
    WANTED = TestNat.WANTED | {Outcome.DROP_MULTI_BUFFER}


class TestPeers(TestNat):
    """Other nodes hand on packets."""

    WANTED = TestNat.WANTED | {
        Outcome.NAT_HANDED_ON, Outcome.DROP_NAT_PEER} | {
        (protocol, kind) for protocol in (state.TCP, state.UDP)
        for kind in nat_peers.Kind}

    def setUp(self):
        super().setUp()
        self.compared.set_peers(nat_peers_case.all_peers(
            random.choice((4, 6))))

    def look(self, result):
        super().look(result)
        if Outcome.NAT_HANDED_ON in result.remarks:
            self.seen.add(handed_on(result.frame))


@needs_pull
class TestSplitPeers(TestPeers):

    KIND = SplitNat
    WANTED = TestPeers.WANTED | {Outcome.DROP_MULTI_BUFFER}

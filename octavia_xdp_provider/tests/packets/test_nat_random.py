# SPDX-License-Identifier: Apache-2.0
"""NAT: the program against the model, with random and mutated frames of
clients, members, routers and peers, while services, members and the node
change.

For half of OCTAVIA_XDP_MUTATION_SECONDS each, and until what NAT alone knows
has occurred; or for OCTAVIA_XDP_MUTATION_COUNT frames.
OCTAVIA_XDP_MUTATION_SEED repeats what a difference named.
"""

import os
import random
import sys
import time
import unittest

from octavia_xdp_provider.packet_model import nat_peers
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import mutation
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support import nat_peers_case
from octavia_xdp_provider.tests.packets.support import nat_scenario
from octavia_xdp_provider.tests.packets.support import split_frames

STEPS = 12  # so few that no flow ends by its age
PATIENCE = 300
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


class TestNat(unittest.TestCase):

    KIND: type[nat_scenario.NatCompared] = nat_scenario.NatCompared
    WANTED = {Outcome.DROP_NO_NAT_FLOW, Outcome.DROP_TTL,
              Outcome.DROP_NAT_UNTRANSLATABLE, Outcome.DROP_CONNECTION_LIMIT,
              Outcome.DROP_FRAGMENT, Outcome.DROP_ICMP,
              Outcome.SENT_TOO_BIG, Outcome.ECHO_REPLY, Outcome.SENT_RESET}

    def setUp(self):
        super().setUp()
        self.compared = self.KIND(cases.plain_node(), flows_max=64)
        self.addCleanup(self.compared.close)
        self.compared.set_pools(list(nat_cases.POOLS))
        self.seen = set()
        self.run_frames = self.compared.run
        self.compared.run = self.run_and_see

    def run_and_see(self, frames):
        results = self.run_frames(frames)
        for one in results:
            self.seen.update((one.outcome, *one.remarks))
        return results

    def is_done(self, end: float) -> bool:
        count = mutation.setting('COUNT', None)
        if count is not None:
            return self.compared.ran >= count
        now = time.monotonic()
        return now > end + PATIENCE or (
            now > end and self.seen >= self.WANTED)

    def run_scenario(self, seed: int, end: float):
        step = 0
        self.compared.rng = random.Random(seed)
        try:
            running = nat_scenario.NatScenario(self.compared, seed)
            while step < STEPS and not self.is_done(end):
                running.step()
                step += 1
        except nat_scenario.Interrupted:
            return
        except compared.Difference as difference:
            raise AssertionError(
                f'{mutation.PREFIX}SEED={seed}, step {step}:\n'
                f'{difference}') from difference
        self.assertEqual('', self.compared.datapath.verify())

    def test_program_and_model_agree_on_random_frames(self):
        end = time.monotonic() + mutation.setting('SECONDS', 60) / 2
        only = mutation.setting('SEED', None)
        rng = random.Random()
        while not self.is_done(end):
            self.run_scenario(
                rng.randrange(1 << 32) if only is None else only, end)
            if only is not None:
                return
        if mutation.setting('COUNT', None) is None:
            self.assertLessEqual(self.WANTED, self.seen)
        print(f'{self.compared.ran} frames without a difference',
              file=sys.stderr)


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

    def run_and_see(self, frames):
        results = super().run_and_see(frames)
        for one in results:
            if Outcome.NAT_HANDED_ON in one.remarks:
                self.seen.add(handed_on(one.frame))
        return results


@needs_pull
class TestSplitPeers(TestPeers):

    KIND = SplitNat
    WANTED = TestPeers.WANTED | {Outcome.DROP_MULTI_BUFFER}

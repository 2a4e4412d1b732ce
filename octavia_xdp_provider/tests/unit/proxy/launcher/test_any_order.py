# SPDX-License-Identifier: Apache-2.0
"""After any sequence of orders, deaths and kills exactly the wanted processes
run."""

import hypothesis
from hypothesis import stateful
from hypothesis import strategies

from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.launcher import world

SETTINGS = hypothesis.settings(
    max_examples=form.repeats(60, 500), stateful_step_count=25,
    deadline=None, derandomize=not form.LONG, database=None,
    suppress_health_check=list(hypothesis.HealthCheck))

NUMBERS = strategies.integers(1, 3)
TEXTS = strategies.sampled_from(['a', 'b', 'c', 'bad', 'deadly'])
PORTS = strategies.lists(strategies.integers(80, 83), min_size=1, max_size=3,
                         unique=True)


class AnyOrder(stateful.RuleBasedStateMachine):

    def __init__(self):
        super().__init__()
        self.node = world.Node()
        self.node.world.bad.add('bad')
        self.node.world.deadly.add('deadly')

    @stateful.rule(number=NUMBERS, text=TEXTS, ports=PORTS)
    def want(self, number, text, ports):
        # Each load balancer has ports of its own.
        self.node.world.wanted[world.identity_of(number)] = world.launch(
            number, text, [100 * number + port for port in ports])
        self.node.look()

    @stateful.rule(number=NUMBERS)
    def want_no_longer(self, number):
        self.node.world.wanted.pop(world.identity_of(number), None)
        self.node.look()

    @stateful.rule(number=NUMBERS, chosen=strategies.integers(0, 2))
    def master_dies(self, number, chosen):
        group = self.node.world.groups.get(world.identity_of(number), {})
        for generation in sorted(group)[chosen:chosen + 1]:
            del group[generation]

    @stateful.rule(number=NUMBERS)
    def leaving_master_ends(self, number):
        group = self.node.world.groups.get(world.identity_of(number), {})
        for generation, master in list(group.items()):
            if master.is_leaving:
                del group[generation]

    @stateful.rule(passes=strategies.integers(1, 4))
    def step(self, passes):
        self.node.step(passes)

    @stateful.rule(seconds=strategies.sampled_from([1, 15, 40]))
    def wait(self, seconds):
        self.node.world.now += seconds

    @stateful.rule(text=strategies.sampled_from(['bad', 'deadly']))
    def haproxy_is_mended(self, text):
        self.node.world.bad.discard(text)
        self.node.world.deadly.discard(text)

    @stateful.rule()
    def launcher_dies(self):
        self.node.start()

    @stateful.rule(number=NUMBERS)
    def record_is_lost(self, number):
        self.node.world.records.pop(world.identity_of(number), None)
        self.node.start()

    @stateful.invariant()
    def at_most_one_takes_over_from_another(self):
        for identity in self.node.world.groups:
            accepting = [master for master
                         in self.node.world.masters(identity)
                         if not master.is_leaving]
            assert len(accepting) <= 2, accepting

    def teardown(self):
        self.node.agree(base.TestCase('assertEqual'))


class TestAnyOrder(base.TestCase):

    def test_what_is_wanted_runs_in_the_end(self):
        stateful.run_state_machine_as_test(AnyOrder, settings=SETTINGS)

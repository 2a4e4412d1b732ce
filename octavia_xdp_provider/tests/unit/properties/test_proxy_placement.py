# SPDX-License-Identifier: Apache-2.0
"""In any sequence of events of nodes of both roles a proxy node is given up
only when no LB node sends to it and its drain time is over, and in the end
each tier has the nodes that it should have."""

import hypothesis
from hypothesis import strategies

from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import proxied_nodes

LB_NODES, PROXIES = ('a', 'b', 'c'), ('p', 'q', 'r')
HOSTS = (*LB_NODES, *PROXIES)
DRAIN_S = 60.0  # [placement] proxy_drain_time
# Reports of all nodes until nothing changes, at most: nodes are added, join,
# others drain, get weight 0, and leave.
ROUNDS = 12

_HOST = strategies.sampled_from(HOSTS)
STEPS = strategies.lists(strategies.one_of(
    strategies.tuples(strategies.just('applies'), _HOST),
    strategies.tuples(strategies.just('applies'), _HOST),
    strategies.tuples(strategies.just('fails'), _HOST),
    strategies.tuples(strategies.just('becomes'), strategies.tuples(
        _HOST, strategies.sampled_from(
            ('live', 'silent', 'dead', 'disabled', 'draining')))),
    strategies.tuples(strategies.just('speaks'),
                      strategies.sampled_from(('HTTP', 'TCP'))),
    strategies.tuples(strategies.just('fails_over'), strategies.none()),
    strategies.tuples(strategies.just('time_passes'),
                      strategies.sampled_from((1, 35, 70)))), max_size=25)


class TestProxyPlacement(proxied_nodes.ProxiedNodesTestCase):

    LB_NODES, PROXIES = LB_NODES, PROXIES

    @hypothesis.settings(
        max_examples=form.repeats(10, 2000), derandomize=not form.LONG,
        deadline=None, database=None, print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(STEPS)
    # Proxy nodes that are replaced drain, and are needed again.
    @hypothesis.example([
        ('fails_over', None), ('applies', 'q'), ('applies', 'p'),
        ('speaks', 'TCP'), ('applies', 'p'), ('applies', 'q'),
        ('fails_over', None), ('time_passes', 1), ('applies', 'p'),
        ('applies', 'q'), ('applies', 'r'), ('speaks', 'HTTP')])
    def test_proxies_are_given_up_late_and_all_settles(self, steps):
        self.begin()
        for name, value in steps:
            before = self.rows()
            getattr(self, name)(value)
            self.work()
            self.check_given_up(before)
        self.end()

    def begin(self):
        self.renew()
        self.octavia = store_base.FakeOctavia()
        self.restart()
        self.register()
        self.conditions = dict.fromkeys(HOSTS, 'live')
        self.applied = {}  # LB node → weights that it uses
        self.create()

    def rows(self):
        return {row.host: row for row in self.store.placements.select(['lb'])
                if row.removed_generation is None}

    def check_given_up(self, before):
        for host in before.keys() - self.rows().keys():
            row = before[host]
            if (row.role != rows.PROXY or not row.synced_generation
                    or self.conditions[host] == 'dead'):
                continue
            self.assertIsNotNone(row.draining_since, host)
            self.assertGreaterEqual(self.now, row.draining_since + DRAIN_S)
            for other, weights in self.applied.items():
                if self.conditions[other] != 'dead':
                    self.assertFalse(weights.get(host), (other, host))

    def end(self):
        for host in HOSTS:
            self.becomes((host, 'live'))
        self.store.placements.keep('lb')
        for _ in range(ROUNDS):
            for host in HOSTS:
                before = self.rows()
                self.applies(host)
                self.work()
                self.check_given_up(before)
            self.now += DRAIN_S / 4
            self.store.work.mark(['lb'])
            self.work()
        placed = self.rows().values()
        by_role = {role: sorted(row.host for row in placed
                                if row.role == role) for role in rows.ROLES}
        self.assertEqual(2, len(by_role[rows.LB]))
        needed = tiers.needs_proxies(self.document())
        self.assertEqual(2 if needed else 0, len(by_role[rows.PROXY]))
        self.assertEqual(
            dict.fromkeys(by_role[rows.PROXY], 1) if needed else None,
            self.weights())

    def applies(self, host):
        """A node fetches and reports. LB nodes use the weights from then on.
        """
        if host in LB_NODES:
            self.applied[host] = ((self.weights() or {})
                                  if host in self.rows() else {})
        self.report(host, announced=host in LB_NODES)

    def fails(self, host):
        """A node cannot apply what it fetches, and goes on as before."""
        if host in self.rows():
            self.report(host, error='it cannot', members={},
                        announced=host in LB_NODES)

    def becomes(self, value):
        host, condition = value
        self.conditions[host] = condition
        self.set_conditions(**{host: condition})

    def speaks(self, protocol):
        self.set_protocol(protocol)

    def fails_over(self, _):
        self.fail_over()

    def time_passes(self, seconds):
        self.now += seconds
        self.store.work.mark(['lb'])

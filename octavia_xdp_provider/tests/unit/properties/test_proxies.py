# SPDX-License-Identifier: Apache-2.0
"""Any sequence of events of proxy nodes and listeners ends with the right
proxies, and with one ACTIVE for each change."""

import hypothesis
from hypothesis import strategies

from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import proxying

LB_NODES = ('a', 'b')
PROXIES = {'p': '192.0.2.1', 'q': '192.0.2.2', 'r': '192.0.2.3'}
HOSTS = (*LB_NODES, *PROXIES)
# Rounds of reports until all is settled: one for nodes to apply what is
# wanted, and one for each of two decisions.
ROUNDS = 3

_HOST = strategies.sampled_from(HOSTS)
_PROXY = strategies.sampled_from(sorted(PROXIES))
# Protocols of the listeners; None: it does not exist.
_LISTENERS = strategies.fixed_dictionaries({
    key: strategies.sampled_from(('TCP', 'HTTP', None))
    for key in ('listener', 'web', 'more')})
STEPS = strategies.lists(strategies.one_of(
    strategies.tuples(strategies.just('listeners'), _LISTENERS),
    strategies.tuples(strategies.just('applies'), _HOST),
    strategies.tuples(strategies.just('fails'), _HOST),
    strategies.tuples(strategies.just('becomes'), strategies.tuples(
        _HOST, strategies.sampled_from(('live', 'silent', 'dead')))),
    strategies.tuples(strategies.sampled_from(
        ('joins', 'leaves', 'drains', 'returns', 'is_replaced')), _PROXY),
    strategies.tuples(strategies.just('time_passes'),
                      strategies.sampled_from((1, 3, 35, 70)))), max_size=12)


class TestProxies(proxying.ProxiesTestCase):

    @hypothesis.settings(
        max_examples=form.repeats(25, 2000), derandomize=not form.LONG,
        deadline=None, database=None, print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(STEPS)
    def test_any_order_ends_settled(self, steps):
        self.begin()
        for name, value in steps:
            getattr(self, name)(value)
            self.work()
        self.end()
        wanted = tiers.proxied_listeners(self.document())
        self.assertEqual(
            (dict.fromkeys(PROXIES, 1), wanted) if wanted else None,
            self.proxies())
        self.assertEqual({'ACTIVE'}, set(self.octavia.trees['lb'].values()))
        self.assertEqual(self.changes, sum(
            entry.get('provisioning_status') == 'ACTIVE'
            for message in self.octavia.messages
            for entry in message.get('loadbalancers', ())))

    def begin(self):
        self.renew()
        self.octavia = store_base.FakeOctavia()
        self.restart()
        for host, address in PROXIES.items():
            self.store.nodes.register(host, role=rows.PROXY,
                                      addresses=[address])
        for host in HOSTS:
            self.seen(host, {})
        self.set_conditions(**dict.fromkeys(HOSTS, 'live'))
        self.changes = 1
        self.create()
        self.joins('r')

    def end(self):
        """End all faults, and let nodes report until all is settled."""
        self.set_conditions(**dict.fromkeys(HOSTS, 'live'))
        for host in PROXIES:
            self.joins(host)
            self.returns(host)
        self.store.placements.keep('lb')
        for _ in range(ROUNDS):
            self.now += 1
            self.report_all(*HOSTS)
        generation = self.generation()
        self.now += 70
        self.report_all(*HOSTS)
        self.assertEqual(generation, self.generation())

    def listeners(self, protocols):
        """Change the load balancer if it is ACTIVE, as Octavia requires."""
        if self.octavia.provisioning_status('lb') != 'ACTIVE':
            return
        doc = proxying.document(**{
            key: protocol for key, protocol in protocols.items()
            if protocol and key != 'listener'})
        if protocols['listener'] is None:
            del doc['listeners']['listener']
        else:
            doc['listeners']['listener']['protocol'] = protocols['listener']
        self.changes += 1
        self.change(doc)

    def applies(self, host):
        self.report(host, members=proxying.UP)

    def fails(self, host):
        self.report(host, error='it cannot', members={})

    def becomes(self, value):
        host, condition = value
        self.set_conditions(**{host: condition})

    def joins(self, host):
        if host not in {row.host for row in self.store.placements.select()
                        if row.removed_generation is None}:
            self.store.placements.place('lb', add=[host])
            self.store.work.mark(['lb'])

    def leaves(self, host):
        self.place(remove=[host])

    def drains(self, host):
        self.place(drain=[host])

    def returns(self, host):
        self.place(restore=[host])

    def is_replaced(self, host):
        self.place(replace=[host])

    def place(self, **hosts):
        self.store.placements.place('lb', **hosts)
        self.store.work.mark(['lb'])

    def time_passes(self, seconds):
        self.now += seconds

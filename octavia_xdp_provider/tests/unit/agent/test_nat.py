# SPDX-License-Identifier: Apache-2.0
"""Pools of NAT on a node, shares of projects, and what is announced."""

import errno
import ipaddress
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import nat_node
from octavia_xdp_provider.tests.unit.agent import planning
from octavia_xdp_provider.tests.unit.agent import reconciling
from octavia_xdp_provider.tests.unit.agent.nat_node import document
from octavia_xdp_provider.tests.unit.agent.nat_node import peers
from octavia_xdp_provider.tests.unit.agent.nat_node import POOL
from octavia_xdp_provider.tests.unit.agent.nat_node import POOL_V6


class TestOptions(base.TestCase):

    def refused(self, word, pools, more=''):
        error = self.assertRaises(
            option_values.ConfigurationError, self.load,
            f'[nat]\npools = {pools}\n{more}')
        self.assertIn('[nat] pools', str(error))
        self.assertIn(word, str(error))

    def test_pools_that_cannot_be_used_are_named(self):
        self.refused('no network', 'pool')
        self.refused('behind its prefix', '198.51.100.1/28')
        self.refused('more than 256', '198.51.100.0/23')
        self.refused('more than 256', '198.51.100.0/24, 192.0.2.0/32')
        self.refused('more than 256', '2001:db8:0:1::/119')
        self.refused('overlap', '198.51.100.0/28, 198.51.100.8/30')
        self.refused('routed', '224.0.0.0/28')
        self.refused('routed', '127.0.0.0/28')
        self.refused('routed', 'fe80::/120')
        self.refused('written as IPv6', '::ffff:198.51.100.0/124')
        self.refused('[vip] allowed_networks', '203.0.113.16/28',
                     '[vip]\nallowed_networks = 203.0.113.0/24')

    def test_pools_of_both_families_up_to_their_limit(self):
        conf = self.load('[nat]\npools = 2001:db8:0:1::/120, 198.51.100.0/24')
        self.assertEqual(
            ('198.51.100.0/24', '2001:db8:0:1::/120'),
            tuple(map(str, nat_options.pools(conf))))
        self.assertEqual((), nat_options.pools(self.load('')))

    def test_share_is_computed_from_the_smaller_family(self):
        networks = tuple(map(ipaddress.ip_network, (
            '198.51.100.0/31', '2001:db8:0:1::/120')))
        self.assertEqual(2 * 64512 // 4, nat_options.share(networks, 25))
        self.assertEqual(256 * 64512, nat_options.share(networks[1:], 100))

    def test_time_outs_that_cannot_be_are_named(self):
        for name, wrong in (
                ('tcp_opening_timeout', 9), ('tcp_closing_timeout', 16001),
                ('tcp_time_wait_timeout', 0), ('udp_opening_timeout', -1),
                ('tcp_established_timeout', 'soon'),
                ('udp_established_timeout', 65536)):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[nat]\n{name} = {wrong}')
            self.assertIn(f'[nat] {name}: ', str(error))
        self.load('[nat]\ntcp_opening_timeout = 10\n'
                  'udp_established_timeout = 16000')

    def test_members_in_a_pool_are_refused(self):
        conf = self.load(f'[nat]\npools = {POOL}')
        # Where no networks of members are set a node takes all.
        policy = options.allowed_addresses(conf, ())
        self.assertIn(POOL, policy.member_problem('198.51.100.1')[2])
        self.assertIsNone(policy.member_problem('198.51.100.4'))


class TestPools(nat_node.NatTestCase):

    def test_pools_are_set_once_and_reported(self):
        node_nat = self.make(f'{POOL}, {POOL_V6}')
        self.assertIsNone(node_nat.report({}))
        node_nat.refresh()
        self.assertEqual([POOL, POOL_V6], self.dataplane.pools)
        version = node_nat.version
        self.dataplane.set_nat_pools = None  # It is not called again.
        node_nat.refresh()
        self.assertEqual(version, node_nat.version)
        self.assertEqual(
            {'pools': [POOL, POOL_V6], 'ports': 8 * 64512, 'flows': 7,
             'share': 4 * 64512 // 2, 'peers': 0,
             'projects': {'a': 5, 'b': 2}},
            node_nat.report({'b': 2, 'a': 5}))

    def test_projects_with_the_most_flows_are_named(self):
        node_nat = self.make()
        node_nat.refresh()
        report = node_nat.report({
            f'p{number:03}': number for number in range(99)})
        self.assertEqual(50, len(report['projects']))
        self.assertEqual('p098', next(iter(report['projects'])))
        self.assertEqual(99 * 98 // 2, report['flows'])

    def test_pools_that_are_there_are_used_before_the_first_pass(self):
        self.dataplane.pools = [POOL]
        self.assertEqual([POOL], [str(pool) for pool in self.make().pools])
        self.assertEqual((), self.make('192.0.2.0/30').pools)

    def test_pool_with_an_address_of_the_node_is_refused(self):
        self.own = {'198.51.100.2', '2001:db8::2'}
        node_nat = self.make()
        node_nat.refresh()
        self.assertEqual([], self.dataplane.pools)
        self.assertIn('198.51.100.2', node_nat.problem)
        error = self.assertRaises(errors.Refused, node_nat.share, document())
        self.assertIn('198.51.100.2', str(error))
        version, self.own = node_nat.version, set()
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)
        self.assertNotEqual(version, node_nat.version)
        node_nat.share(document())

    def test_refused_pools_are_a_problem(self):
        self.dataplane.error = datapath.DatapathError(
            errno.EEXIST, '198.51.100.1 is a VIP')
        node_nat = self.make()
        node_nat.refresh()
        self.assertEqual('[nat] pools: 198.51.100.1 is a VIP',
                         node_nat.problem)
        self.assertEqual((), node_nat.pools)

    def test_another_library_ends_the_pass(self):
        self.dataplane.error = datapath.DatapathError(errno.ESTALE, 'stale')
        self.assertRaises(datapath.DatapathError, self.make().refresh)


class TestTimeouts(nat_node.NatTestCase):

    WANTED = {'tcp_opening_timeout': 30, 'tcp_closing_timeout': 50,
              'tcp_time_wait_timeout': 20, 'udp_opening_timeout': 40}

    def test_timeouts_are_set_once_as_configured(self):
        node_nat = self.make(**self.WANTED)
        node_nat.refresh()
        self.assertEqual(datapath.NatTimeouts(30, 50, 20, 40),
                         self.dataplane.timeouts)
        self.dataplane.set_nat_timeouts = None  # It is not called again.
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)

    def test_agent_with_other_timeouts_replaces_them(self):
        self.make(**self.WANTED).refresh()
        self.make().refresh()
        self.assertEqual(datapath.NatTimeouts(240, 240, 60, 120),
                         self.dataplane.timeouts)

    def test_nodes_without_pools_have_none(self):
        self.dataplane.nat_timeouts = self.dataplane.set_nat_timeouts = None
        self.make('', **self.WANTED).refresh()

    def test_refused_timeouts_are_a_problem_beside_the_pools(self):
        self.dataplane.set_nat_timeouts = mock.Mock(
            side_effect=datapath.DatapathError(errno.EINVAL, 'no such time'))
        node_nat = self.make(**self.WANTED)
        node_nat.refresh()
        self.assertEqual('[nat] time-outs: no such time', node_nat.problem)
        self.assertEqual([POOL], self.dataplane.pools)
        node_nat.share(document())
        self.dataplane.set_nat_timeouts.side_effect = None
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)

    def test_another_library_ends_the_pass(self):
        self.dataplane.set_nat_timeouts = mock.Mock(
            side_effect=datapath.DatapathError(errno.ESTALE, 'stale'))
        self.assertRaises(datapath.DatapathError,
                          self.make(**self.WANTED).refresh)

    def test_services_have_those_of_established_flows(self):
        node_nat = self.make(tcp_established_timeout=500,
                        udp_established_timeout=90)
        node_nat.refresh()
        self.assertEqual({'TCP': 500, 'UDP': 90},
                         node_nat.share(document()).idle_times)


class TestShares(nat_node.NatTestCase):

    def test_projects_have_numbers_of_their_own_which_stay(self):
        node_nat = self.make(tenant_share=100)
        node_nat.refresh()
        names = [f'project{number}' for number in range(nat.GROUPS)]
        found = [node_nat.share(document(project_id=name)) for name in names]
        self.assertEqual(set(range(nat.GROUPS)),
                         {share.group for share in found})
        self.assertEqual({4 * 64512}, {share.flows for share in found})
        again = [node_nat.share(document(project_id=name)) for name in names]
        self.assertEqual(found, again)
        # One more shares with somebody; node_nat that went leaves its number.
        self.assertIn(node_nat.share(document(project_id='more')).group,
                      range(nat.GROUPS))
        node_nat.keep_groups(set(names[1:]))
        self.assertEqual(found[0].group,
                         node_nat.share(document(project_id='project0')).group)

    def test_single_project_has_the_same_number_after_a_restart(self):
        numbers = set()
        for _ in range(2):
            node_nat = self.make()
            node_nat.refresh()
            numbers.add(node_nat.share(document()).group)
        self.assertEqual(1, len(numbers))

    def test_members_of_a_family_without_a_pool_are_refused(self):
        node_nat = self.make()
        node_nat.refresh()
        found = document()
        found['pools']['pool']['members']['m1']['address'] = '2001:db8::1'
        error = self.assertRaises(errors.Refused, node_nat.share, found)
        self.assertEqual('flavor', error.option)
        self.assertIn('no IPv6', str(error))
        self.assertRaises(errors.Refused, self.make('').share, document())


class TestServices(base.TestCase):

    idle_times = {'TCP': 7440, 'UDP': 300}

    def plan(self, found, **more):
        return planning.plan(found, share=lambda _document: (
            nat.Share(7, 1000, self.idle_times)), **more)

    def test_connection_limit_becomes_a_setting(self):
        found = document()
        found['listeners']['listener']['connection_limit'] = 10
        for key, flag in ((None, datapath.ServiceFlag(0)),
                          ('connection_limit_reset',
                           datapath.ServiceFlag.RESET)):
            if key:
                found['flavor'][key] = True
            ((_, service),) = self.plan(found).services.items()
            self.assertEqual(datapath.Settings(
                flags=datapath.ServiceFlag.NAT | flag, nat_group=7,
                nat_flows=1000, connection_limit=10,
                idle_timeout_s=7440), service.settings)

    def test_members_have_their_ports_and_no_encapsulation(self):
        found = document()
        members = found['pools']['pool']['members']
        members['m1']['protocol_port'] = 8080
        members['m2']['address'] = '2001:db8:18::12'
        plan = self.plan(found)
        self.assertEqual('p', plan.nat_project)
        ((key, service),) = plan.services.items()
        self.assertEqual(datapath.Settings(
            flags=datapath.ServiceFlag.NAT, nat_group=7, nat_flows=1000,
            idle_timeout_s=7440), service.settings)
        self.assertEqual({('198.18.10.11', 8080), ('2001:db8:18::12', 80)},
                         {(one.address, one.port) for one in service.members})
        self.assertEqual({4, 6}, service.families(key.address))
        members['m1']['address'] = '2001:db8:18::11'
        (service,) = self.plan(found).services.values()
        # Answers go to clients of the VIP's family.
        self.assertEqual({4, 6}, service.families(key.address))

    def test_probes_go_as_packets_do(self):
        def mark(*_target):
            raise AssertionError('inside an encapsulation')

        plan = self.plan(document(), mark=mark)
        self.assertEqual({('198.18.10.11', None), ('198.18.10.12', None)},
                         {(one.address, one.mark) for one in plan.checks})

    def test_idle_timeout_follows_the_listeners_timeout(self):
        def idle(protocol='TCP', client_ms=50000, **flavor):
            found = document()
            found['flavor'] = {'forwarding': 'nat', **flavor}
            found['listeners']['listener'].update(
                protocol=protocol, timeout_client_data=client_ms)
            found['pools']['pool'].update(protocol=protocol,
                                          healthmonitor=None)
            (service,) = self.plan(found).services.values()
            return service.settings.idle_timeout_s

        self.assertEqual(7440, idle())
        self.assertEqual(7440, idle(client_ms=3_600_000))
        self.assertEqual(8000, idle(client_ms=8_000_000))
        self.assertEqual(16000, idle(client_ms=2 ** 31 - 1))
        self.assertEqual(300, idle('UDP'))
        self.assertEqual(301, idle('UDP', client_ms=300_001))
        self.assertEqual(60, idle(idle_timeout=60))
        self.assertEqual(350, idle('UDP', idle_timeout=350))
        self.idle_times = {'TCP': 120, 'UDP': 40}
        self.assertEqual(120, idle())
        self.assertEqual(121, idle(client_ms=121_000))
        self.assertEqual(50, idle('UDP'))
        self.assertEqual(40, idle('UDP', client_ms=40_000))
        self.assertEqual(7440, idle(idle_timeout=7440))

    def test_node_without_pools_refuses_nat(self):
        error = self.assertRaises(errors.Refused, planning.plan, document())
        self.assertEqual('flavor', error.option)


class TestPeers(nat_node.NatTestCase):

    def setUp(self):
        super().setUp()
        self.node_nat = self.make()
        self.host = self.node_nat.peers._host
        self.both = peers(a='198.51.100.8', **{self.host: '198.51.100.0'})

    def test_peers_are_set_once_and_on_changes(self):
        self.node_nat.peers.refresh()
        self.assertIsNone(self.dataplane.peers)  # Not known: as they were.
        self.assertTrue(self.node_nat.peers.want(self.both))
        self.node_nat.peers.refresh()
        self.assertEqual(['198.51.100.8', '198.51.100.0'],
                         self.dataplane.peers)
        self.assertFalse(self.node_nat.peers.want(self.both))
        self.dataplane.peers = None
        self.node_nat.peers.refresh()
        self.assertIsNone(self.dataplane.peers)
        self.assertTrue(self.node_nat.peers.want(self.both[1:]))
        self.node_nat.peers.refresh()
        self.assertEqual(['198.51.100.0'], self.dataplane.peers)

    def test_node_missing_from_the_peers_has_no_peers(self):
        self.node_nat.peers.want(self.both)
        self.node_nat.peers.refresh()
        self.node_nat.peers.want(self.both[:1])
        self.node_nat.peers.refresh()
        self.assertEqual([], self.dataplane.peers)

    def test_refused_peers_are_retried_and_no_problem_of_the_node(self):
        self.node_nat.refresh()
        self.dataplane.error = datapath.DatapathError(
            errno.ENOENT, 'none of the peers is of its pools')
        self.node_nat.peers.want(self.both)
        self.node_nat.peers.refresh()
        self.assertEqual((None, 0), (self.node_nat.problem,
                                     self.node_nat.report({})['peers']))
        self.dataplane.error = None
        self.node_nat.peers.refresh()
        self.assertEqual(2, len(self.dataplane.peers))
        self.assertEqual(2, self.node_nat.report({})['peers'])

    def test_node_without_pools_sets_no_peers(self):
        node_nat = self.make('')
        self.assertFalse(node_nat.is_wanted)
        node_nat.peers.refresh()
        self.assertEqual([], self.dataplane.peers)


class TestPasses(reconciling.ReconcilerTestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.load(
            f'[agent]\nwithdraw_grace = 0\n[nat]\npools = {POOL}\n'
            '[bgp]\ncommunities = 65000:1\n')
        self.own = set()
        self.announce._networks.append(ipaddress.ip_network(POOL))
        self.unmonitored()
        self.document['flavor'] = {'forwarding': 'nat'}
        # Of an agent before this one.
        self.datapath.peers = ['198.51.100.0']
        self.restart()

    def restart(self):
        self.gave_up = mock.Mock()
        self.nat = nat.Nat(self.conf, self.datapath, lambda: self.own,
                           self.gave_up)
        self.reconciler = self.make(self.conf, nat=self.nat)

    def nat_state(self):
        return self.nat.report(self.reconciler.facts.nat_flows())

    def boot(self):
        """Nothing is known of peers; `now` is what clocks say."""
        self.datapath.peers = None
        self.now = 1000.0
        self.useFixture(fixtures.MockPatchObject(
            peers_wait, 'time', mock.Mock(monotonic=lambda: self.now)))
        self.restart()

    def test_vips_are_announced_once_peers_are_known(self):
        self.boot()
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())
        self.assertIn(reconciling.KEY, self.datapath.held)
        # Controllers do not know yet that it has pools.
        self.nat.peers.want(peers(a='192.0.2.0'))
        self.now += peers_wait.WAIT_S - 1
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())
        self.nat.peers.want(peers(
            a='192.0.2.0', **{self.conf.host: '198.51.100.0'}))
        self.reconciler.announce(reconciling.BOTH)
        # Nor do the others know this node.
        self.now += peers_wait.OTHERS_S - 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.now += 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.gave_up.assert_not_called()

    def test_single_node_does_not_wait_for_peers(self):
        self.boot()
        self.nat.peers.want(peers(**{self.conf.host: '198.51.100.0'}))
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_nodes_that_have_known_each_other_for_long_do_not_wait(self):
        self.boot()
        self.nat.peers.want(peers(
            a='192.0.2.0', **{self.conf.host: '198.51.100.0'}))
        self.run_pass()
        self.now += peers_wait.OTHERS_S
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_peers_are_not_waited_for_without_an_end(self):
        self.boot()
        self.run_pass(self.document)
        self.now += peers_wait.WAIT_S - 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.now += 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.run_pass(self.document)
        self.gave_up.assert_called_once_with()

    def test_wait_begins_with_the_first_vip(self):
        self.boot()
        self.run_pass()
        self.now += 2 * peers_wait.WAIT_S
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())

    def test_vips_that_are_announced_stay_and_others_do_not_wait(self):
        self.run_pass(self.document)
        self.boot()
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.run_pass()
        self.document['flavor'] = {}
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_pools_are_there_before_services_and_announced_with_them(self):
        result = self.run_pass(self.document)
        self.assertEqual({}, result.failed)
        self.assertEqual([POOL], self.datapath.pools)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.assertEqual({('65000:1',)}, {
            route.communities for route in self.announce.wanted().values()})

    def test_pools_outlive_vips(self):
        """Flows of a VIP that went live on by their pool."""
        self.run_pass(self.document)
        self.run_pass()
        self.assertEqual({POOL}, self.announced())
        # What drains is drained without them.
        self.reconciler.reconcile(self.wanted(self.document)._replace(
            draining=frozenset(['lb'])), reconciling.BOTH)
        self.assertEqual(
            {POOL: False, reconciling.PREFIX: True},
            {str(prefix): '65535:0' in route.communities for prefix, route
             in self.announce.wanted().items()})

    def test_peers_are_set_by_passes_and_between_them(self):
        host = self.conf.host
        self.nat.peers.want(peers(**{host: '198.51.100.0'}))
        self.run_pass(self.document)
        self.assertEqual(['198.51.100.0'], self.datapath.peers)
        self.nat.peers.want(peers(a='192.0.2.0', **{host: '198.51.100.0'}))
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual(['192.0.2.0', '198.51.100.0'], self.datapath.peers)

    def test_vip_that_is_withdrawn_keeps_its_service(self):
        self.run_pass(self.document)
        wanted = self.wanted(self.document)
        ends = frozenset(['lb'])
        self.reconciler.reconcile(wanted._replace(
            draining=ends, withdrawn=ends), reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.assertIn(reconciling.KEY, self.datapath.held)
        self.assertIs(False, self.reconciler.held['lb']['announced'])
        self.reconciler.reconcile(wanted, reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_restarted_agent_keeps_the_route_of_its_pools(self):
        self.run_pass(self.document)
        before = self.announce.wanted()
        self.restart()
        self.events.clear()
        self.reconciler.announce(frozenset())
        self.assertEqual(before, self.announce.wanted())
        self.run_pass(self.document)
        self.assertEqual([], self.events)

    def test_pools_that_are_not_configured_any_more_are_withdrawn(self):
        self.run_pass(self.document)
        self.conf = self.load('[agent]\nwithdraw_grace = 0\n')
        self.restart()
        result = self.run_pass(self.document)
        self.assertIn('[nat] pools', result.failed['lb'])
        self.assertEqual({reconciling.PREFIX}, self.announced())
        self.assertEqual([], self.datapath.pools)

    def test_nat_problem_affects_only_nat_load_balancers(self):
        other = dict(base.document(vip_address='203.0.113.11'), id='other')
        self.run_pass(self.document, other)
        self.own = {'198.51.100.1'}
        result = self.run_pass(self.document, other)
        self.assertEqual({'lb': self.nat.problem}, result.failed)
        self.assertEqual([], self.reconciler.problems)
        self.assertEqual([self.nat.problem, None], [
            self.reconciler.held[key]['error'] for key in ('lb', 'other')])
        # What was there before goes on.
        self.assertEqual([POOL], self.nat_state()['pools'])
        self.assertIn(self.nat.problem, self.nat_state()['problem'])
        self.own = set()
        self.assertEqual({}, self.run_pass(self.document, other).failed)
        self.assertNotIn('problem', self.nat_state())

    def test_flows_and_bytes_are_counted_also_when_it_is_withdrawn(self):
        self.run_pass(self.document)
        self.datapath.active, self.datapath.reply_bytes = 5, 999
        self.datapath.set_health(reconciling.KEY, False)
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.assertEqual(
            {'bytes': 1500, 'flows': 1, 'drops': 0, 'active': 5,
             'bytes_out': 999},
            self.reconciler.facts.counters()['lb']['listener'])
        self.assertEqual({'TCP': 5, 'UDP': 0, 'SCTP': 0},
                         self.reconciler.facts.active_flows())
        ((_, _, _, traffic),) = self.reconciler.facts.traffic()
        self.assertEqual(5, traffic.active)
        self.assertEqual(
            {'pools': [POOL], 'ports': 4 * 64512, 'flows': 5,
             'share': 2 * 64512, 'peers': 0, 'projects': {'p': 5}},
            self.nat_state())

# SPDX-License-Identifier: Apache-2.0
"""Members on hypervisors: order, keys, migrations, obstacles."""

import threading
from unittest import mock

import fixtures

from octavia_xdp_provider.common import errors as refusals
from octavia_xdp_provider.common import host_rpc
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import loops
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import notifications
from octavia_xdp_provider.controller.zero_touch import moves
from octavia_xdp_provider.controller.zero_touch import notified
from octavia_xdp_provider.controller.zero_touch import service
from octavia_xdp_provider.tests.unit import base as unit_base
from octavia_xdp_provider.tests.unit.controller import base
from octavia_xdp_provider.tests.unit.controller import test_neutron_ports

LEASE = 'duty'
QUARANTINE_S = 600
OPTIONS = '''
[zero_touch]
node_networks = 198.18.0.0/24
host_networks = 198.18.20.0/24, fd00:9::/64
'''


def uuid(number):
    return f'00000000-0000-4000-8000-{number:012}'


PORTS = {'m1': uuid(1), 'm2': uuid(2)}
ADDRESSES = {'m1': '10.0.0.11', 'm2': '10.0.0.12'}
GROUP = uuid(90)


class Neutron(test_neutron_ports.Neutron):

    def ports_of_groups(self, ids):
        return [row for row in self._ports
                if set(row['security_groups']) & set(ids)]

    def address_groups(self, ids):
        return []


def port(member, **more):
    return test_neutron_ports.port(
        PORTS[member], security_groups=[GROUP], **{
            'fixed_ips': [{'subnet_id': 'sub-red',
                           'ip_address': ADDRESSES[member]}], **more})


class Host:
    """An agent over the endpoint, as the contract has it."""

    def __init__(self, test, name, number):
        self.name = name
        self.state = {
            'agent': '1', 'document_version': 1, 'kernel': '6.12',
            'geneve': [f'198.18.20.{number}'], 'srv6': None, 'mtu': 1500,
            'entries_max': 4096, 'features': ['ping']}
        self.endpoint = host_api.HostsEndpoint(test.conf, test.store,
                                               lambda: None)
        self.held, self.as_of = {}, 0
        self.errors = {}
        self._seq = 0
        test.store.register_hypervisor(name)

    def pass_(self):
        """Fetch, make it true, report."""
        answer = self.endpoint.fetch({}, host=self.name, since=self.as_of)
        for key in answer['removed']:
            self.held.pop(key, None)
        for one in answer['changed']:
            host_spec.check(one['kind'], one['document'])
            self.held[one['id']] = one
        host_spec.check_common(answer['common'])
        self.as_of = answer['as_of']
        self.report()

    def report(self):
        self._seq += 1
        taken = self.endpoint.report(
            {}, host=self.name, epoch=self._seq, seq=1, report={
                'as_of': self.as_of, 'complete': True, 'gone': [],
                'counters': {}, 'state': self.state, 'held': {
                    key: {'generation': one['generation'], 'ifindex': 3,
                          'error': self.errors.get(key)}
                    for key, one in self.held.items()}})
        assert taken['taken']

    def keys(self):
        return {entry['key'] for one in self.held.values()
                for entry in one['document'].get('entries', ())}


class ZeroTouchTestCase(base.StoreTestCase):

    MODE = 'required'

    def load(self, text=''):
        return super().load(text + OPTIONS)

    def setUp(self):
        super().setUp()
        self.hold_time()
        self.ports = [port('m1'), port('m2'),
                      test_neutron_ports.router_port()]
        self.neutron = Neutron(self.ports, [test_neutron_ports.rule()])
        self.notified = []
        self.hv1, self.hv2 = Host(self, 'hv1', 1), Host(self, 'hv2', 2)
        for host in (self.hv1, self.hv2):
            host.pass_()
        self.store.register_node('lb1')
        self.seen('lb1', {})
        self.set_conditions(lb1='live')
        self.token = self.store.acquire(LEASE, 'test', 1e6)
        self.heard = notified.Notified()
        self.worker = self.new_worker()

    def new_worker(self):
        return service.ZeroTouch(
            self.conf, self.store, LEASE, lambda: self.token,
            self.notified.extend, self.notified.extend, self.neutron,
            self.heard)

    def tree(self, **more):
        tree = unit_base.tree(flavor={'zero_touch': self.MODE},
                              project_id='red', **more)
        for key, address in ADDRESSES.items() if not more else ():
            tree['pools']['pool']['members'][key] = {
                'address': address, 'protocol_port': 8080,
                'subnet_id': 'sub-red'}
        return tree

    def create(self, key='lb', **more):
        self.store.create(spec.document(key, self.tree(**more)))
        self.store.place(key, ('lb1',), decided_on=frozenset())

    def step(self):
        """As when turns have come round."""
        self.worker._due = {}
        self.worker.step()

    def row(self, key='lb'):
        return self.store.load_balancer(key)

    def members(self, key='lb'):
        return self.row(key).document['pools']['pool']['members']

    def sent(self, key='lb'):
        """Members that nodes are sent."""
        document = spec.for_node(self.row(key).document)
        validation.read(document)
        return document['pools']['pool']['members']

    def node_syncs(self, key='lb', host='lb1'):
        row = self.row(key)
        self.store.report(host, row.generation, {
            key: {'generation': row.generation, 'error': None}})

    def converge(self):
        for _ in range(4):
            self.step()
            for host in (self.hv1, self.hv2):
                host.pass_()
            if self.row():
                self.node_syncs()
        self.step()

    def ways(self, key='lb'):
        return {way.member_id: way for way in self.store.member_ways(key)}


class TestOrder(ZeroTouchTestCase):

    def test_the_hypervisor_has_the_entry_before_nodes_the_tunnel(self):
        self.create()
        self.assertEqual({}, self.sent())
        self.step()
        self.assertIn('hv1', self.notified)
        self.assertEqual({}, self.sent())
        self.assertEqual({'m1', 'm2'}, spec.undecided(self.row().document))
        self.assertIn('not confirmed', self.ways()['m1'].reason)
        self.hv1.pass_()
        self.assertEqual(2, len(self.hv1.keys()))
        self.step()
        self.assertIn('lb1', self.notified)
        tunnels = [one['tunnel'] for one in self.sent().values()]
        self.assertEqual(self.hv1.keys(), {
            one['keys']['listener'] for one in tunnels})
        for tunnel in tunnels:
            self.assertEqual(('198.18.20.1', 'geneve', 1442), (
                tunnel['address'], tunnel['encapsulation'], tunnel['mtu']))
        self.assertEqual(set(), spec.undecided(self.row().document))
        self.assertEqual(('tunnel', 'hv1', ''), (
            self.ways()['m1'].way, self.ways()['m1'].host,
            self.ways()['m1'].reason))

    def test_what_the_hypervisor_gets(self):
        self.create()
        self.converge()
        self.assertEqual({PORTS['m1'], PORTS['m2']}, set(self.hv1.held))
        document = self.hv1.held[PORTS['m1']]['document']
        entry, = document['entries']
        self.assertEqual(
            ('lb', 'listener', 'm1', '203.0.113.10', 80, ADDRESSES['m1'],
             8080, 6, 'fa:16:3e:00:00:01'), tuple(entry[name] for name in (
                 'load_balancer_id', 'listener_id', 'member_id', 'vip',
                 'vip_port', 'address', 'port', 'protocol', 'gateway_mac')))
        self.assertEqual([{
            'ip_version': 4, 'protocol': 6, 'ports': [8080, 8080],
            'remote_network': None, 'address_set': None}],
            document['rules'])

    def test_nothing_happens_where_nothing_has_changed(self):
        self.create()
        self.converge()
        before = self.row().generation
        sequence = self.hv1.endpoint.fetch({}, host='hv1', since=0)['as_of']
        del self.notified[:]
        for _ in range(3):
            self.step()
        self.assertEqual(before, self.row().generation)
        self.assertEqual(sequence, self.hv1.endpoint.fetch(
            {}, host='hv1', since=0)['as_of'])
        self.assertEqual([], self.notified)

    def test_nodes_stop_before_the_hypervisor_forgets(self):
        self.create()
        self.converge()
        key = self.members()['m2']['tunnel']['keys']['listener']

        def drop(document):
            del document['pools']['pool']['members']['m2']
            return document
        self.store.change('lb', drop)
        for _ in range(3):
            self.step()
            self.hv1.pass_()
        self.assertIn(key, self.hv1.keys())
        self.node_syncs()
        self.step()
        self.hv1.pass_()
        self.assertNotIn(key, self.hv1.keys())
        self.assertEqual({PORTS['m1']}, set(self.hv1.held))

    def test_a_deleted_load_balancer_leaves_nothing(self):
        self.create()
        self.converge()
        self.store.delete('lb')
        self.step()
        self.hv1.pass_()
        self.assertEqual(2, len(self.hv1.keys()))
        self.store.report('lb1', self.row().generation, {})
        self.step()
        self.hv1.pass_()
        self.hv1.pass_()
        self.assertEqual(set(), self.hv1.keys())
        self.assertEqual([], self.store.host_objects())
        self.assertEqual({}, self.ways())
        self.now += QUARANTINE_S + 1
        self.step()
        self.assertEqual([], self.store.host_keys())

    def test_a_new_listener_waits_and_disturbs_no_other(self):
        self.create()
        self.converge()

        def add(document):
            document['listeners']['second'] = {
                **document['listeners']['listener'], 'protocol_port': 81}
            return document
        self.store.change('lb', add)
        sent = spec.for_node(self.row().document)
        self.assertEqual({'listener'}, set(sent['listeners']))
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        self.assertEqual({'m1', 'm2'}, spec.undecided(self.row().document))
        self.converge()
        sent = spec.for_node(self.row().document)
        self.assertEqual({'listener', 'second'}, set(sent['listeners']))
        self.assertEqual(4, len(self.hv1.keys()))

    def test_another_leader_goes_on_where_the_last_one_was(self):
        self.create()
        self.step()
        self.worker = self.new_worker()
        self.hv1.pass_()
        self.step()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        generation = self.row().generation
        self.worker = self.new_worker()
        self.step()
        self.assertEqual(generation, self.row().generation)

    def promote(self, **change):
        request = uuid(int(change.pop('number')))
        self.store.request({'load_balancer_id': 'lb', 'object_id': 'lb',
                            'object': 'loadbalancer', **change}, request)
        return self.store.promote_request(request, 0, ['live']).zero_touch

    def test_changes_say_whether_this_concerns_them(self):
        self.assertTrue(self.promote(
            number=1, action='create', fields=self.tree()))
        self.assertTrue(self.promote(number=2, action='delete'))

    def test_other_changes_do_not(self):
        fields = {**self.tree(), 'flavor': {'member_port': 'rewrite'}}
        self.assertFalse(self.promote(
            number=1, action='create', fields=fields))
        self.assertFalse(self.promote(number=2, action='delete'))

    def test_a_hang_in_neutron_is_seen(self):
        now, asked, answer = [0.0], threading.Event(), threading.Event()
        self.addCleanup(answer.set)
        watched = loops.Loops(10, lambda: now[0])

        def hang(*arguments, **filters):
            asked.set()
            answer.wait(60)
            return []
        self.create()
        self.neutron.ports = hang
        loop = service.loop(self.worker, watched.watch('zero touch'))
        thread = threading.Thread(target=loop.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(loop.stop)
        self.assertTrue(asked.wait(60))
        now[0] += 11
        self.assertEqual({'zero touch': 11}, watched.hanging())
        answer.set()
        loop.stop()
        thread.join(60)
        self.assertFalse(thread.is_alive())

    def test_without_the_lease_nothing_is_stored(self):
        self.create()
        self.store.acquire('other', 'x', 10)
        self.token += 1
        self.assertRaises(service.leases.LeaseLost, self.step)
        self.assertEqual([], self.store.host_keys())


class TestNotifications(ZeroTouchTestCase):
    """Between turns, what Neutron has said something about is looked at."""

    def test_port_that_is_bound_elsewhere_is_looked_at_at_once(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.ports[1]['binding:host_id'] = 'hv2'
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({}, self.hv2.held)
        self.heard.hear(notifications.Hint(frozenset([PORTS['m1']])))
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({PORTS['m1']}, set(self.hv2.held))
        self.step()
        self.hv2.pass_()
        self.assertEqual({PORTS['m1'], PORTS['m2']}, set(self.hv2.held))

    def test_rule_that_goes_is_noticed_at_once(self):
        self.create()
        self.converge()
        self.neutron._rules[:] = []
        self.heard.hear(notifications.Hint(groups=frozenset([GROUP])))
        self.worker.step()
        self.hv1.pass_()
        self.assertEqual([[], []], [
            one['document']['rules'] for one in self.hv1.held.values()])

    def test_address_that_joins_a_group_of_rules(self):
        self.neutron._rules[:] = [test_neutron_ports.rule(
            remote_group_id=GROUP)]
        self.create()
        self.converge()
        self.ports.append(port('m1', id='client', fixed_ips=[
            {'subnet_id': 'sub-red', 'ip_address': '10.0.0.99'}]))
        self.worker.step()
        self.hv1.pass_()
        networks = self.hv1.held[GROUP]['document']['networks']
        self.assertNotIn('10.0.0.99/32', networks)
        self.heard.hear(notifications.Hint(
            frozenset(['client']), frozenset(['10.0.0.99']),
            frozenset([GROUP])))
        self.worker.step()
        self.hv1.pass_()
        self.assertEqual([*networks, '10.0.0.99/32'],
                         self.hv1.held[GROUP]['document']['networks'])

    def test_neutron_that_is_away_is_asked_again(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.heard.hear(notifications.Hint(frozenset([PORTS['m1']])))
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.worker.step()
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({PORTS['m1']}, set(self.hv2.held))

    def test_who_does_not_lead_hears_nothing(self):
        self.create()
        self.converge()
        self.assertTrue(self.heard.is_wanted)
        self.token = None
        self.worker.step()
        self.assertFalse(self.heard.is_wanted)


class TestMigration(ZeroTouchTestCase):

    def test_the_new_hypervisor_is_prepared_and_the_old_one_kept(self):
        self.create()
        self.converge()
        old = self.members()['m1']['tunnel']
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.assertEqual({PORTS['m1']}, set(self.hv2.held))
        self.assertEqual(old, self.members()['m1']['tunnel'])
        self.ports[0].update({'binding:host_id': 'hv2',
                              'binding:profile': {}})
        self.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.hv1.pass_()
        self.step()
        self.hv1.pass_()
        self.assertIn(old['keys']['listener'], self.hv1.keys())
        self.node_syncs()
        self.step()
        self.hv1.pass_()
        self.assertNotIn(old['keys']['listener'], self.hv1.keys())

    def test_a_migration_is_followed_at_each_step(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.ports[0].update({'binding:host_id': 'hv2',
                              'binding:profile': {}})
        # Nobody's turn has come round.
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.ports[0]['binding:host_id'] = 'hv1'
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])

    def test_the_new_hypervisor_keeps_all_while_neutron_has_no_binding(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.node_syncs()
        held, old = dict(self.hv2.held), self.members()['m1']['tunnel']
        self.assertEqual({PORTS['m1']}, set(held))
        self.ports[0].update({'binding:host_id': 'hv2', 'binding:profile': {},
                              'binding:vif_type': 'unbound'})
        for _ in range(3):
            self.worker.step()
            self.hv2.pass_()
            self.assertEqual(held, self.hv2.held)
        # nor does another leader, which has asked nobody yet
        self.worker = self.new_worker()
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.worker.step()
        self.hv2.pass_()
        self.assertEqual(held, self.hv2.held)
        self.assertEqual(old, self.members()['m1']['tunnel'])
        self.ports[0]['binding:vif_type'] = 'ovs'
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.assertEqual(held, self.hv2.held)

    def test_a_moment_without_a_binding_does_not_end_a_migration(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.ports[0].update({'binding:host_id': 'hv2', 'binding:profile': {},
                              'binding:vif_type': 'unbound'})
        self.worker.step()
        self.ports[0]['binding:vif_type'] = 'ovs'
        # Nobody's turn has come round.
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])

    def test_a_migration_that_does_not_end_is_looked_at_in_turns(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=self.neutron.ports) as asked:
            self.worker.step()
            self.assertEqual(1, asked.call_count)
            with mock.patch.object(moves, 'FOLLOWED_S', 0):
                self.worker.step()
            self.assertEqual(1, asked.call_count)

    def test_a_move_without_notice_keeps_the_old_tunnel_until_ready(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.step()
        self.assertEqual('198.18.20.1',
                         self.members()['m1']['tunnel']['address'])
        self.hv2.pass_()
        self.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])


class TestMovedFlows(ZeroTouchTestCase):
    """What a hypervisor says of connections goes to where the port is."""

    def setUp(self):
        super().setUp()
        self.passed_on = []
        self.hv1.endpoint = host_api.HostsEndpoint(
            self.conf, self.store, lambda: None,
            lambda *message: self.passed_on.append(message))
        self.create()
        self.converge()

    def flows(self, *keys, member='m1', host=None):
        host = host or self.hv1
        return self.hv1.endpoint.flows(
            {}, host=host.name, port=PORTS[member], flows=[
                {'key': key, 'client': '198.51.100.7', 'port': 1025,
                 'closing': False} for key in keys])

    def own_key(self, host, member='m1'):
        entry, = host.held[PORTS[member]]['document']['entries']
        return entry['key']

    def migrate(self):
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()

    def test_they_go_where_the_port_is_ready_with_its_key_there(self):
        key = self.own_key(self.hv1)
        self.assertFalse(self.flows(key))
        self.migrate()
        self.assertFalse(self.flows(key))
        self.hv2.pass_()
        self.assertTrue(self.flows(key))
        (host, port_id, flows), = self.passed_on
        self.assertEqual(('hv2', PORTS['m1']), (host, port_id))
        self.assertEqual([{'key': self.own_key(self.hv2), 'port': 1025,
                           'client': '198.51.100.7', 'closing': False}],
                         flows)

    def test_keys_that_are_not_the_senders_on_this_port_are_left_out(self):
        self.migrate()
        self.hv2.pass_()
        other = self.own_key(self.hv1, 'm2')
        self.assertTrue(self.flows(other, self.own_key(self.hv2), 77))
        self.assertEqual([], self.passed_on)

    def test_a_hypervisor_without_the_port_sends_nothing(self):
        self.migrate()
        self.hv2.pass_()
        key = self.own_key(self.hv1)
        self.store.register_hypervisor('hv3')
        self.assertFalse(self.hv1.endpoint.flows(
            {}, host='hv3', port=PORTS['m1'], flows=[
                {'key': key, 'client': '198.51.100.7', 'port': 1025,
                 'closing': False}]))
        self.assertEqual([], self.passed_on)

    def test_what_is_malformed_is_refused(self):
        for flows in (
                [{'key': 1, 'client': 'x', 'port': 1, 'closing': False}],
                [{'key': 1, 'client': '::1', 'port': 0, 'closing': False}],
                [{'key': 1}], 'x',
                [{'key': 1, 'client': '192.0.2.1', 'port': 1,
                  'closing': False}] * 1001):
            self.assertRaises(refusals.Refused, self.hv1.endpoint.flows, {},
                              host='hv1', port=PORTS['m1'], flows=flows)


class TestObstacles(ZeroTouchTestCase):

    def reason(self, member='m1'):
        way = self.ways()[member]
        return way.way, way.reason

    def test_required_without_an_agent_is_an_error_by_name(self):
        self.ports[0]['binding:host_id'] = 'hv9'
        self.create()
        self.converge()
        way, reason = self.reason()
        self.assertEqual('none', way)
        self.assertIn('no agent is registered for hypervisor hv9', reason)
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertEqual(set(), spec.undecided(self.row().document))

    def test_an_error_of_the_hypervisor_is_the_members(self):
        self.hv1.errors = {PORTS['m1']: 'no room'}
        self.create()
        self.converge()
        self.assertEqual(('none', 'hypervisor hv1: no room'), self.reason())
        self.hv1.errors = {}
        self.hv1.report()
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_an_agent_that_does_not_know_pings_is_sent_none(self):
        del self.hv1.state['features']
        self.hv1.report()
        tree = self.tree()
        tree['pools']['pool']['healthmonitor']['type'] = 'PING'
        self.store.create(spec.document('lb', tree))
        self.store.place('lb', ('lb1',), decided_on=frozenset())
        self.converge()
        way, reason = self.reason()
        self.assertEqual('none', way)
        self.assertIn('hv1 does not let echo requests of health monitors of '
                      'type PING in: upgrade it', reason)
        self.hv1.state['features'] = ['ping', 'and more']
        self.hv1.report()
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_an_agent_that_does_not_know_pings_has_all_others(self):
        del self.hv1.state['features']
        self.hv1.report()
        self.create()
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_a_disabled_hypervisor_is_left(self):
        self.create()
        self.converge()
        self.store.set_hypervisor_in_service('hv1', False)
        self.converge()
        self.assertEqual(('none', 'hypervisor hv1 is disabled'),
                         self.reason())
        self.assertEqual({}, self.sent())
        self.hv1.pass_()
        self.assertEqual(set(), self.hv1.keys())
        self.store.set_hypervisor_in_service('hv1', True)
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_a_silent_agent_keeps_what_it_has_and_gets_nothing_new(self):
        self.create()
        self.converge()
        self.now += 3600
        self.create('lb2', vip_address='203.0.113.11', listeners={}, pools={
            'pool2': {**self.tree()['pools']['pool'], 'members': {
                'm3': {'address': ADDRESSES['m1'], 'protocol_port': 8081,
                       'subnet_id': 'sub-red'}}, 'healthmonitor': None}})
        self.step()
        self.assertEqual('tunnel', self.reason()[0])
        self.assertIn('not heard', self.ways('lb2')['m3'].reason)

    def test_addresses_that_are_not_the_operators_are_not_used(self):
        for geneve, word in (('192.0.2.1', 'outside'),
                             ('198.18.20.2', 'same address')):
            self.hv1.state['geneve'] = [geneve]
            self.hv1.report()
            self.store.change('lb', lambda document: document) if (
                self.row()) else self.create()
            self.step()
            self.assertIn(word, self.reason()[1])
        self.assertEqual({}, self.sent())

    def test_of_several_addresses_the_first_in_host_networks_is_used(self):
        self.create()
        for srv6, geneve, mtu, expected in (
                (None, ['192.0.2.1', 'fd00:9::31'], 1500,
                 ('geneve', 'fd00:9::31', 1442)),
                (None, ['198.18.20.1', 'fd00:9::31'], 1500,
                 ('geneve', '198.18.20.1', 1442)),
                ('2001:db8::/96', ['fd00:9::31'], 1400,
                 ('geneve', 'fd00:9::31', 1344)),
                ('fd00:9:1::/96', ['198.18.20.1'], 1400,
                 ('geneve', '198.18.20.1', 1364)),
                ('fd00:9::1:0:0/96', ['198.18.20.1'], 1400,
                 ('srv6', 'fd00:9::1:0:0', 1360))):
            self.hv1.state.update(srv6=srv6, geneve=geneve, mtu=mtu)
            self.hv1.report()
            self.converge()
            tunnel = self.members()['m1']['tunnel']
            self.assertEqual(expected, (
                tunnel['encapsulation'], tunnel['address'], tunnel['mtu']))

    def test_of_several_addresses_outside_the_first_is_named(self):
        self.hv1.state.update(srv6='2001:db8::/96', geneve=['192.0.2.1'])
        self.hv1.report()
        self.create()
        self.step()
        self.assertIn('2001:db8::, which is outside', self.reason()[1])

    def test_a_hypervisor_that_claims_anothers_address_takes_nothing(self):
        self.create()
        self.converge()
        before, keys = self.members(), self.hv1.keys()
        self.hv2.state['geneve'] = ['198.18.20.1']
        self.hv2.report()
        self.converge()
        self.assertEqual(before, self.members())
        self.assertEqual(keys, self.hv1.keys())
        self.assertIn('same address', self.reason()[1])
        self.hv2.state['geneve'] = ['198.18.20.2']
        self.hv2.report()
        self.converge()
        self.assertEqual(('tunnel', ''), self.reason())

    def test_neutron_is_away(self):
        self.create()
        with mock.patch.object(
                self.neutron, 'ports',
                side_effect=errors.NeutronUnavailable('no route')):
            self.step()
            self.assertEqual('waiting', self.reason()[0])
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])
        with mock.patch.object(
                self.neutron, 'ports',
                side_effect=errors.NeutronUnavailable('no route')):
            self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))

    def test_a_port_that_is_bound_nowhere_for_a_moment_keeps_its_tunnel(self):
        self.create()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.ports[0].update({'binding:host_id': '',
                              'binding:vif_type': 'unbound'})
        self.converge()
        self.assertEqual(tunnel, self.members()['m1']['tunnel'])
        self.assertIn('no hypervisor', self.reason()[1])
        self.assertEqual(2, len(self.hv1.keys()))

    def test_remote_groups_are_address_sets(self):
        self.neutron._rules[:] = [test_neutron_ports.rule(
            remote_group_id=GROUP)]
        self.create()
        self.converge()
        self.assertEqual([f'{ADDRESSES["m1"]}/32', f'{ADDRESSES["m2"]}/32'],
                         self.hv1.held[GROUP]['document']['networks'])
        self.neutron._rules[:] = [test_neutron_ports.rule()]
        self.converge()
        self.assertNotIn(GROUP, self.hv1.held)

    def test_a_group_that_is_too_large_is_named_once(self):
        self.neutron._rules[:] = [test_neutron_ports.rule(
            remote_group_id=GROUP)]
        # Every second address, which cannot be one network.
        self.ports[1]['allowed_address_pairs'] = [
            {'ip_address': f'10.9.{number >> 7}.{2 * (number & 127)}'}
            for number in range(host_spec.ADDRESSES_MAX)]
        self.create()
        log = self.useFixture(fixtures.FakeLogger())

        def lines():
            return [line for line in log.output.splitlines()
                    if f'Group {GROUP}' in line]
        self.converge()
        self.converge()
        line, = lines()
        self.assertIn('4098', line)
        self.assertIn('4096', line)
        self.assertEqual(host_spec.ADDRESSES_MAX, len(
            self.hv1.held[GROUP]['document']['networks']))
        self.ports[1]['allowed_address_pairs'].pop()
        self.converge()
        self.assertEqual(2, len(lines()))
        self.assertIn('4097', lines()[1])


class TestPreferred(ZeroTouchTestCase):

    MODE = 'preferred'

    def test_a_member_outside_is_reached_at_its_address(self):
        self.ports.pop(0)
        self.create()
        self.store.change('lb', self.on_80)
        self.converge()
        sent = self.sent()
        self.assertNotIn('tunnel', sent['m1'])
        self.assertNotIn('way', sent['m1'])
        self.assertIn('tunnel', sent['m2'])
        self.assertEqual('direct', self.ways()['m1'].way)
        self.assertIn('no port', self.ways()['m1'].reason)

    @staticmethod
    def on_80(document):
        document['pools']['pool']['members']['m1']['protocol_port'] = 80
        return document

    def test_with_another_port_nobody_would_write_it_is_not(self):
        self.ports.pop(0)
        self.create()
        self.converge()
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertEqual('none', self.ways()['m1'].way)
        self.assertIn('8080', self.ways()['m1'].reason)


class TestKeys(ZeroTouchTestCase):

    def test_a_key_is_given_to_no_other_before_its_time(self):
        """Whatever comes and goes, in a key space of seven."""
        given, free = {}, {}
        self.create()
        with mock.patch('random.SystemRandom') as source:
            numbers = iter(range(10 ** 6))
            source.return_value.randrange = lambda top: next(numbers) % 8
            self.worker = self.new_worker()
            for turn in range(12):
                self.now += QUARANTINE_S / 3

                def swap(document, turn=turn):
                    members = document['pools']['pool']['members']
                    one = next(iter(members.values()))
                    one = {name: one[name] for name in one
                           if name not in ('tunnel', 'way')}
                    document['pools']['pool']['members'] = {
                        f'new{turn}': one}
                    return document
                self.store.change('lb', swap)
                self.converge()
                now = {}
                for key in self.store.host_keys():
                    self.assertTrue(0 < key.key < 8)
                    if key.free_at is None:
                        now[key.key] = key.member_id
                for key, member in now.items():
                    if given.get(key) not in (None, member):
                        self.assertGreaterEqual(
                            self.now, free[key] + QUARANTINE_S)
                for key in given.keys() - now.keys():
                    free.setdefault(key, self.now)
                for key in now:
                    free.pop(key, None)
                given.update(now)
        self.assertGreater(len(given), 3)

    def test_srv6_has_keys_of_32_bits_at_an_end_of_96(self):
        self.hv1.state.update(srv6='fd00:9::/96')
        self.hv1.report()
        self.create()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.assertEqual(('fd00:9::', 'srv6'),
                         (tunnel['address'], tunnel['encapsulation']))
        self.hv1.state.update(srv6=None)
        self.hv1.report()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.assertEqual('geneve', tunnel['encapsulation'])
        self.assertLess(tunnel['keys']['listener'], 1 << 24)


class TestBoundary(ZeroTouchTestCase):

    def test_a_hypervisor_gets_its_own_documents_alone(self):
        self.create()
        self.converge()
        other = self.hv2.endpoint
        self.assertEqual([], other.fetch({}, host='hv2', since=0)['changed'])
        self.assertEqual({}, other.compare({}, host='hv2')['generations'])
        self.assertEqual([], other.documents(
            {}, host='hv2', ids=list(PORTS.values())))

    def test_it_reports_of_its_own_alone(self):
        self.create()
        self.converge()
        before = self.store.host_objects(['hv1'])
        self.hv2.held = dict(self.hv1.held)
        self.hv2.errors = {PORTS['m1']: 'broken'}
        self.hv2.report()
        self.assertEqual(before, self.store.host_objects(['hv1']))

    def test_one_that_is_not_registered_is_refused(self):
        self.store.remove_hypervisor('hv2')
        error = self.assertRaises(service.errors.Refused,
                                  self.hv2.endpoint.fetch, {}, host='hv2',
                                  since=0)
        self.assertIn('not registered', error.why)
        self.assertRaises(service.errors.Refused, self.hv2.report)

    def test_without_node_networks_it_is_said_and_nothing_is_lost(self):
        self.conf.set_override('node_networks', [], group='zero_touch')
        endpoint = host_api.HostsEndpoint(self.conf, self.store, None)
        answer = endpoint.fetch({}, host='hv1', since=5)
        self.assertIn('node_networks', answer['refused'])
        self.assertEqual((5, [], []), (
            answer['as_of'], answer['changed'], answer['removed']))

    def test_the_interfaces_name(self):
        self.assertEqual('hosts', host_rpc.HOSTS_NAMESPACE)

# SPDX-License-Identifier: Apache-2.0
"""Addresses that only members behind hypervisors may have."""

import ipaddress
import uuid

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller import requesting

VM = '10.0.0.5'
VMS = {'flavor': {'zero_touch': 'preferred'}}


def policy(*vm_networks, members='198.18.0.0/15'):
    return address_policy.AddressPolicy(
        (ipaddress.ip_network('203.0.113.0/24'),), (),
        member_networks=(ipaddress.ip_network(members),),
        vm_networks=tuple(map(ipaddress.ip_network, vm_networks)))


class TestRequests(requesting.RequestsTestCase):

    policy = policy('10.0.0.0/8')

    def request(self, change):
        return self.store.requests.add(change, str(uuid.uuid4()),
                                       policy=self.policy)

    def refused(self, option, change):
        error = self.assertRaises(errors.Refused, self.request, change)
        self.assertEqual(option, error.option)
        self.assertNotIn('10.0.0.0/8', str(error))
        self.assertIn('10.0.0.0/8', error.for_operator)

    def added(self, address, **more):
        return requesting.member('create', str(uuid.uuid4()),
                                 fields=base.member(address, **more))

    def test_ordinary_load_balancers_only_reach_the_fabric(self):
        self.store.load_balancers.create(base.document())
        self.refused('address', self.added(VM))
        self.refused('monitor_address',
                     self.added('198.18.10.13', monitor_address=VM))
        self.request(self.added('198.18.10.13',
                                monitor_address='198.18.10.14'))

    def test_zero_touch_load_balancers_reach_vms_and_probe_the_fabric(self):
        self.store.load_balancers.create(base.document(**VMS))
        self.request(self.added(VM))
        self.request(self.added(VM, monitor_address=VM))
        self.refused('monitor_address',
                     self.added(VM, monitor_address='10.0.0.6'))
        self.refused('address', self.added('172.16.0.1'))

    def test_monitor_address_of_existing_member_is_checked(self):
        self.store.load_balancers.create(base.document(**VMS))
        change = requesting.member('update', 'm1', fields={
            'monitor_address': '10.0.0.6'})
        self.refused('monitor_address', change)

    def test_batch_and_creation_are_checked(self):
        tree = base.tree()
        tree['pools']['pool']['members']['m2'] = base.member(VM)
        self.refused('address', requesting.created(
            pools=tree['pools']))
        self.store.load_balancers.create(base.document())
        self.refused('address', {
            'object': 'member', 'action': 'replace', 'object_id': None,
            'pool_id': 'pool', 'members': {'new': base.member(VM)}})

    def test_members_older_than_the_list_stay(self):
        document = base.document()
        members = document['pools']['pool']['members']
        members['m1'].update(address=VM, monitor_address='10.0.0.6')
        self.store.load_balancers.create(document)
        self.request(self.added('198.18.10.13'))
        self.request(requesting.member('update', 'm1',
                                       fields={'weight': 7}))
        self.refused('monitor_address', requesting.member(
            'update', 'm1', fields={'monitor_address': '10.0.0.7'}))

    def test_single_list_applies_to_all(self):
        self.policy = policy(members='10.0.0.0/8')
        self.store.load_balancers.create(base.document())
        for vip, more in (('203.0.113.11', {}), ('203.0.113.12', VMS)):
            key = f'lb-{vip}'
            self.request(requesting.created(
                key, vip_address=vip, listeners={}, pools={f'pool-{key}': {
                    'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                    'members': {f'm-{key}': base.member(VM)}}}, **more))

    def test_vm_may_have_the_address_of_an_lb_node(self):
        """Packets go to the VM through its hypervisor, and not to the node."""
        self.seen('lb1', {'addresses': [VM, '198.18.10.13']})
        self.store.load_balancers.create(base.document(**VMS))
        self.request(self.added(VM))
        error = self.assertRaises(errors.Refused, self.request,
                                  self.added('198.18.10.13'))
        self.assertIn('LB node lb1', error.for_operator)
        self.policy = policy(members='0.0.0.0/0')
        self.assertRaises(errors.Refused, self.request, self.added(VM))

    def test_endpoint_asks_with_the_controllers_options(self):
        self.store.load_balancers.create(base.document())
        api = driver_api.DriverEndpoint(self.store, lambda *_one: None, None,
                                        None, policy=self.policy)
        answer = api.change(None, self.added(VM), str(uuid.uuid4()),
                            self.store.database.now() + 30, True)
        self.assertIn('none that this member may have', answer['refused'])
        answer = api.change(None, self.added('198.18.10.13'),
                            str(uuid.uuid4()), self.store.database.now() + 30,
                            True)
        self.assertIn('accepted', answer)


class TestWays(hypervisors.ZeroTouchTestCase):
    """Without a tunnel to a VM, nothing is sent to its address."""

    MODE = 'preferred'

    def load(self, text=''):
        return super().load(text + (
            '[vip]\nallowed_networks = 203.0.113.0/24\n'
            '[members]\nallowed_networks = 198.18.0.0/15\n'
            '[zero_touch]\nmember_networks = 10.0.0.0/8\n'))

    @staticmethod
    def on_80(document):
        """Use the listener's port, so that members are reachable directly."""
        for member in document['pools']['pool']['members'].values():
            member['protocol_port'] = 80
        return document

    def test_vm_without_a_tunnel_is_not_reached(self):
        self.ports.pop(0)
        self.create()
        self.store.load_balancers.change('lb', self.on_80)
        self.converge()
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertIn('tunnel', self.sent()['m2'])
        way = self.ways()['m1']
        self.assertEqual('none', way.way)
        self.assertIn('no port', way.reason)
        self.assertIn('[members] allowed_networks', way.reason)

    def test_vm_is_no_longer_reached_directly(self):
        self.ports.pop(0)
        self.create()

        def direct(document):
            self.on_80(document)
            document['pools']['pool']['members']['m1']['way'] = 'direct'
            return document
        self.store.load_balancers.change('lb', direct)
        self.assertIn('m1', self.sent())
        self.converge()
        self.assertNotIn('m1', self.sent())

    def test_member_on_the_fabric_is_reached_directly(self):
        self.create()

        def moved(document):
            self.on_80(document)
            document['pools']['pool']['members']['m1']['address'] = (
                '198.18.10.11')
            return document
        self.store.load_balancers.change('lb', moved)
        self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        self.assertEqual('direct', self.ways()['m1'].way)

# SPDX-License-Identifier: Apache-2.0
"""Rules over several VIPs, algorithms served otherwise, subnets, versions."""

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import rules
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.tests.unit import base

VIP6 = '2001:db8:100::10'


def dual_stack(**more):
    return base.document(additional_vips=[{'ip_address': VIP6}], **more)


class RulesTestCase(base.TestCase):

    def refused(self, option, document):
        error = self.assertRaises(errors.Refused, validation.validate,
                                  document)
        self.assertEqual(option, error.option)
        return str(error)


class TestDualStack(RulesTestCase):

    def test_each_vip_is_there_once(self):
        validation.validate(dual_stack())
        self.refused('additional_vips', base.document(
            additional_vips=[{'ip_address': base.VIP}]))

    def test_no_vip_is_a_member(self):
        document = dual_stack()
        document['pools']['pool']['members']['m1']['address'] = VIP6
        self.refused('address', document)

    def test_clients_of_both_families_can_be_listed(self):
        document = dual_stack()
        document['listeners']['listener']['allowed_cidrs'] = [
            '198.51.100.0/24', '2001:db8::/32']
        validation.validate(document)
        del document['additional_vips'][0]
        self.refused('allowed_cidrs', document)

    def test_netmasks_of_either_family_group_clients(self):
        for mask in ('255.255.255.0', 'ffff:ffff::'):
            document = dual_stack()
            document['pools']['pool']['session_persistence'] = {
                'type': 'SOURCE_IP', 'persistence_timeout': None,
                'persistence_granularity': mask}
            validation.validate(document)

    def test_rewritten_addresses_have_one_family(self):
        self.refused('address', dual_stack(
            flavor={'encapsulation': 'dscp', 'dscp': 5}))


class TestAlgorithms(RulesTestCase):

    def test_algorithms_that_nobody_serves_are_refused(self):
        for algorithm in flavor.ALGORITHMS_BY_HASH:
            document = base.document()
            document['pools']['pool']['lb_algorithm'] = algorithm
            text = self.refused('lb_algorithm', document)
            self.assertIn(algorithm, text)
            self.assertIn('use SOURCE_IP_PORT', text)

    def test_a_flavor_can_have_them_served_by_the_hash(self):
        document = base.document(flavor={
            'algorithms_served_by_hash': ['ROUND_ROBIN']})
        document['pools']['pool']['lb_algorithm'] = 'ROUND_ROBIN'
        validation.validate(document)
        document['pools']['pool']['lb_algorithm'] = 'LEAST_CONNECTIONS'
        self.refused('lb_algorithm', document)


class TestProtocols(RulesTestCase):

    def test_https_is_tcp_that_passes_through(self):
        for listener, pool in (('HTTPS', 'HTTPS'), ('HTTPS', 'TCP'),
                               ('TCP', 'HTTPS')):
            document = base.document()
            document['listeners']['listener']['protocol'] = listener
            document['pools']['pool']['protocol'] = pool
            validation.validate(document)
        document['listeners']['listener']['protocol'] = 'UDP'
        self.refused('protocol', document)


class TestSubnets(RulesTestCase):

    def test_a_subnet_has_one_family(self):
        document = base.document(vip_subnet_id='v')
        members = document['pools']['pool']['members']
        members['m1']['subnet_id'] = members['m2']['subnet_id'] = 's'
        self.assertIsNone(rules.subnet_problem(document))
        members['m2']['address'] = '2001:db8::1'
        self.assertIn('2001:db8::1', rules.subnet_problem(document)[0])
        members['m2']['subnet_id'] = None
        self.assertIsNone(rules.subnet_problem(document))

    def test_members_of_both_families_may_name_a_subnet_of_the_vips(self):
        """As Octavia's own tests do: "reached from where the VIP is"."""
        document = base.document(vip_subnet_id='v', additional_vips=[
            {'ip_address': '2001:db8:100::8', 'subnet_id': 'w'}])
        members = document['pools']['pool']['members']
        members['m2']['address'] = '2001:db8::1'
        for subnet in 'v', 'w':
            members['m1']['subnet_id'] = members['m2']['subnet_id'] = subnet
            self.assertIsNone(rules.subnet_problem(document))

    def test_documents_of_before_are_still_done(self):
        """Nodes have no use for it."""
        document = base.document()
        members = document['pools']['pool']['members']
        members['m2']['address'] = '2001:db8::1'
        members['m1']['subnet_id'] = members['m2']['subnet_id'] = 's'
        self.assertIsNotNone(rules.subnet_problem(document))
        validation.validate(document)


class TestVersions(base.TestCase):
    """Older nodes do what they know, and refuse what they do not."""

    # Fields of version 1, as its nodes check them.
    DOCUMENT = {'version', 'id', 'name', 'project_id', 'admin_state_up',
                'vip_address', 'vip_port_id', 'vip_subnet_id',
                'vip_network_id', 'flavor', 'listeners', 'pools'}
    LISTENER = {'name', 'admin_state_up', 'protocol', 'protocol_port',
                'default_pool_id', 'allowed_cidrs'}

    def test_what_version_1_can_say_is_sent_in_version_1(self):
        document = base.document(flavor={'idle_timeout': 60},
                                 availability_zone={'zone': 'a'})
        document['listeners']['listener'].update(
            timeout_client_data=50000, timeout_member_data=50000)
        sent = spec.for_node(document)
        self.assertEqual(1, sent['version'])
        self.assertLessEqual(set(sent), self.DOCUMENT)
        self.assertLessEqual(set(sent['listeners']['listener']),
                             self.LISTENER)
        # And comes back as it was, but for what changes nothing.
        read = validation.read(sent)
        self.assertEqual(
            dict(document, availability_zone={}, listeners={}),
            dict(read, listeners={}))

    def test_what_is_new_is_sent_in_version_2(self):
        def listener(**more):
            document = base.document()
            document['listeners']['listener'].update(more)
            return document

        def pool(flavor=None, **more):
            document = base.document(flavor=flavor or {})
            document['pools']['pool'].update(more)
            return document
        served = {'algorithms_served_by_hash': ['ROUND_ROBIN']}
        for document in (
                dual_stack(), listener(protocol='HTTPS'),
                listener(timeout_client_data=400_000),
                pool(protocol='HTTPS'),
                pool(served, lb_algorithm='ROUND_ROBIN'), pool(served)):
            sent = spec.for_node(document)
            self.assertEqual(2, sent['version'])
            self.assertNotIn('availability_zone', sent)
            validation.read(sent)

    def test_documents_of_version_1_are_completed(self):
        old = spec.for_node(base.document())
        read = validation.read(old)
        self.assertEqual(base.document(), read)

    def test_idle_flows_are_remembered_as_long_as_an_end_may_be_silent(self):
        document = base.document()
        listener = document['listeners']['listener']
        for client, member, idle, expected in (
                (None, None, None, 350), (50_000, 50_000, None, 350),
                (50_000, 400_001, None, 401), (900_000, 1, None, 900),
                (50_000, 50_000, 20, 20), (900_000, None, 600, 600),
                (2 ** 31 - 1, 0, None, flavor.IDLE_TIMEOUT_MAX)):
            listener.update(timeout_client_data=client,
                            timeout_member_data=member)
            document['flavor'] = {'idle_timeout': idle} if idle else {}
            self.assertEqual(expected, spec.idle_time(document, listener))


class TestFailover(base.TestCase):

    def test_a_failover_leaves_the_document(self):
        document = base.document()
        change = {'object': 'loadbalancer', 'action': 'failover',
                  'object_id': 'lb', 'load_balancer_id': 'lb'}
        validation.check_change(change)
        self.assertEqual(document, changes.apply(document, change))


class TestCommitted(base.TestCase):

    def test_what_octavia_does_not_show_is_kept(self):
        mine = base.document(availability_zone={'zone': 'a'},
                             flavor={'member_port': 'rewrite'})
        theirs = base.document(name='new')
        self.assertEqual(['loadbalancer.name'],
                         spec.differences(mine, theirs))
        result = spec.as_committed(mine, theirs)
        self.assertEqual(
            ('new', {'zone': 'a'}, {'member_port': 'rewrite'}),
            (result['name'], result['availability_zone'],
             result['flavor']))

    def test_time_outs_that_were_not_known_are_no_difference(self):
        theirs = base.document()
        theirs['listeners']['listener'].update(timeout_client_data=50000)
        self.assertEqual([], spec.differences(base.document(), theirs))
        mine = base.document()
        mine['listeners']['listener'].update(timeout_client_data=60000)
        self.assertEqual(['listener listener.timeout_client_data'],
                         spec.differences(mine, theirs))

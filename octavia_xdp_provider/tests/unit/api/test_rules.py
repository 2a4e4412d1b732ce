# SPDX-License-Identifier: Apache-2.0
"""Rules over several VIPs, algorithms served otherwise, subnets, versions."""

from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
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

    def test_rewritten_addresses_have_one_family(self):
        self.refused('address', dual_stack(
            flavor={'encapsulation': 'dscp', 'dscp': 5}))


class TestZones(RulesTestCase):

    def test_zone_excludes_nodes_in_different_zones(self):
        zone = {'zone': 'east'}
        text = self.refused('availability_zone', base.document(
            flavor={'spread': 'require'}, availability_zone=zone))
        self.assertIn('zone east', text)
        for metadata, asked in (
                ({'spread': 'require'}, {}), ({'spread': 'prefer'}, zone),
                ({'spread': 'require', 'replicas': 1}, zone), ({}, zone)):
            validation.validate(base.document(flavor=metadata,
                                              availability_zone=asked))

    def test_spread_is_for_controllers_only(self):
        for spread in flavor.SPREADS:
            document = base.document(flavor={'spread': spread, 'quic': True})
            self.assertEqual(spread, spec.spread(document))
            self.assertEqual({'quic': True},
                             spec.for_node(document)['flavor'])
        self.assertIsNone(spec.spread(base.document()))
        self.assertEqual('off', spec.spread(base.document(
            availability_zone={'zone': 'east'})))


class TestAlgorithms(RulesTestCase):

    def test_algorithms_that_nobody_serves_are_refused(self):
        for algorithm in flavor.ALGORITHMS_BY_HASH:
            document = base.document(flavor={'forwarding': 'tunnel'})
            document['pools']['pool']['lb_algorithm'] = algorithm
            text = self.refused('lb_algorithm', document)
            self.assertIn(algorithm, text)
            self.assertIn('use SOURCE_IP_PORT', text)


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

    def test_subnet_has_one_family(self):
        document = base.document(vip_subnet_id='v')
        members = document['pools']['pool']['members']
        members['m1']['subnet_id'] = members['m2']['subnet_id'] = 's'
        self.assertIsNone(rules.subnet_problem(document))
        members['m2']['address'] = '2001:db8::1'
        self.assertIn('2001:db8::1', rules.subnet_problem(document)[0])
        members['m2']['subnet_id'] = None
        self.assertIsNone(rules.subnet_problem(document))

    def test_members_of_both_families_may_name_a_subnet_of_the_vips(self):
        """Octavia's own tests do so: "reached from where the VIP is"."""
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




class TestIdleTime(base.TestCase):

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

    def test_failover_leaves_the_document(self):
        document = base.document()
        change = {'object': 'loadbalancer', 'action': 'failover',
                  'object_id': 'lb', 'load_balancer_id': 'lb'}
        validation.check_change(change)
        self.assertEqual(document, changes.apply(document, change))


class TestCommitted(base.TestCase):

    def test_fields_that_octavia_hides_are_kept(self):
        stored = base.document(availability_zone={'zone': 'a'},
                             flavor={'member_port': 'rewrite'})
        committed = base.document(name='new')
        self.assertEqual(['loadbalancer.name'],
                         spec.differences(stored, committed))
        result = spec.as_committed(stored, committed)
        self.assertEqual(
            ('new', {'zone': 'a'}, {'member_port': 'rewrite'}),
            (result['name'], result['availability_zone'],
             result['flavor']))

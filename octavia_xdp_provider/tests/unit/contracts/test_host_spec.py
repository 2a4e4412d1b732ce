# SPDX-License-Identifier: Apache-2.0
"""Documents of hypervisors: what is refused, by its name."""

import copy

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.tests.unit import base

PORT_ID = '00000000-0000-4000-8000-000000000001'
GROUP_ID = '00000000-0000-4000-8000-0000000000aa'
ENTRY = {'key': 7, 'load_balancer_id': 'lb', 'listener_id': 'l',
         'member_id': 'm', 'vip': '203.0.113.10', 'vip_port': 80,
         'address': '10.0.0.5', 'port': 8080, 'protocol': host_spec.TCP,
         'gateway_mac': 'fa:16:3e:00:00:ff'}
RULE = {'ip_version': 4, 'protocol': 6, 'ports': [8080, 8090],
        'remote_network': '198.51.100.0/24', 'address_set': None}
PORT = {'version': 1, 'id': PORT_ID, 'mac': 'fa:16:3e:00:00:01',
        'mtu': 1442, 'open': False, 'rules': [RULE], 'entries': [ENTRY]}
ADDRESS_SET = {'version': 1, 'id': GROUP_ID, 'networks': ['10.0.0.7/32']}


class TestDocuments(base.TestCase):

    def refused(self, path, kind=host_spec.PORT, document=PORT, **changed):
        given = {**copy.deepcopy(document), **changed}
        error = self.assertRaises(errors.Refused, host_spec.check, kind,
                                  given)
        self.assertEqual(path, error.option)
        self.assertTrue(error.why)
        self.assertTrue(error.instead)

    def entry(self, path, **changed):
        self.refused(f'entries.0.{path}', entries=[{**ENTRY, **changed}])

    def rule(self, path, **changed):
        self.refused(f'rules.0.{path}', rules=[{**RULE, **changed}])

    def test_good_documents_are_accepted(self):
        host_spec.check(host_spec.PORT, PORT)
        host_spec.check(host_spec.ADDRESS_SET, ADDRESS_SET)
        host_spec.check(host_spec.PORT, {
            **PORT, 'rules': [], 'entries': [], 'open': True})

    def test_unknown_kinds_versions_and_fields(self):
        self.refused('kind', kind='router')
        self.refused('version', version=2)
        self.refused('version', version='1')
        self.refused('colour', colour='red')
        self.refused('networks.0', kind=host_spec.ADDRESS_SET,
                     document=ADDRESS_SET, networks=['10.0.0.7/8'])
        error = self.assertRaises(errors.Refused, host_spec.check,
                                  host_spec.PORT, [])
        self.assertEqual('document', error.option)

    def test_malformed_port_is_refused_by_field(self):
        self.refused('id', id='../../etc')
        self.refused('mac', mac='FA:16:3e:00:00:01')
        self.refused('mac', mac='01:00:5e:00:00:01')
        self.refused('mtu', mtu=1279)
        self.refused('rules', rules=[RULE] * (host_spec.RULES_MAX + 1))

    def test_rule_that_contradicts_itself_is_refused_by_field(self):
        self.rule('ports', ports=[2, 1])
        self.rule('protocol', protocol=1)
        self.rule('address_set', address_set=GROUP_ID)
        self.rule('remote_network', ip_version=6)
        self.rule('remote_network', remote_network='2001:db8::/32')

    def test_impossible_entry_of_a_port_is_refused_by_field(self):
        self.entry('key', key=0)
        self.entry('key', key=2 ** 32)
        self.entry('vip', address='2001:db8::5')
        self.entry('port', protocol=host_spec.SCTP)
        self.refused('entries.1.key', entries=[ENTRY, ENTRY])

    def test_messages_have_the_shape_that_both_sides_check(self):
        shape.Shape(host_messages.Report).check({
            'as_of': 3, 'complete': True, 'gone': [GROUP_ID],
            'held': {PORT_ID: {'generation': 3, 'ifindex': 7,
                               'error': None}},
            'counters': {PORT_ID: {
                'drops': {'not_allowed': 1}, 'active': 2, 'entries': [{
                    'key': 7, 'packets_in': 1, 'bytes_in': 2,
                    'packets_out': 3, 'bytes_out': 4, 'flows': 5,
                    'drops': 6}]}},
            'state': {'agent': '1', 'document_version': 1, 'kernel': '6.12',
                      'geneve': ['198.18.20.1'], 'srv6': None, 'mtu': 1500,
                      'entries': 1, 'entries_max': 4096, 'problems': [],
                      'of a newer agent': {}}})
        shape.Shape(host_messages.FetchAnswer).check({
            'as_of': 3, 'removed': [], 'more': None, 'compare': False,
            'common': {'networks': ['198.18.0.0/24'],
                       'peers': ['198.18.20.0/24']},
            'refused': None, 'changed': [
                {'id': PORT_ID, 'kind': 'port', 'generation': 3,
                 'document': PORT}]})

# SPDX-License-Identifier: Apache-2.0
"""Malformed documents and changes: refused by path, each field of them."""

import copy
import ipaddress
from unittest import mock

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.tests.unit import base

POLICY = address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),),
    (ipaddress.ip_network('10.0.0.0/8'),), frozenset({'198.18.1.6'}))
# Fields that say no more than a document needs to be one.
_TUNNEL = ('pools', 'pool', 'members', 'm2', 'tunnel')
# Objects whose names are ids or addresses.
BY_ID = {(*_TUNNEL, 'keys'), (*_TUNNEL, 'additional_keys'),
         (*_TUNNEL, 'additional_keys', '2001:db8:100::10')}
OPTIONAL = {'name', 'project_id', 'subnet_id', 'vip_port_id',
            'vip_subnet_id', 'vip_network_id', 'availability_zone',
            'tunnel', 'key', 'keys', 'additional_keys', 'mtu', 'way',
            'takes_alternative', 'patience', 'announcing'}
# Fields about proxies.
OF_PROXIES = {'proxies', 'moved', 'leaving', 'cookie_name', 'token'}
METADATA = ('flavor',), ('availability_zone',)


def full_document():
    """A document in which every field of layer 4 is set."""
    document = base.document(
        vip_port_id='p', vip_subnet_id='s', vip_network_id='n',
        flavor={'encapsulation': 'gue'}, announcing=['node1', 'node2'])
    document['listeners']['listener'].update(
        name='web', allowed_cidrs=['198.51.100.0/24'])
    pool = document['pools']['pool']
    pool.update(name='web', session_persistence={
        'type': 'SOURCE_IP', 'persistence_timeout': 60,
        'persistence_granularity': '255.255.255.0'})
    pool['members']['m1'].update(
        name='a', subnet_id='s', monitor_address='198.18.10.99',
        monitor_port=8080)
    pool['members']['m2'].update(
        monitor_address='198.18.10.99', way='direct', tunnel={
            'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7,
            'keys': {'listener': 8}, 'mtu': 1442, 'takes_alternative': True,
            'additional_keys': {'2001:db8:100::10': {'listener': 9}},
            'patience': 30})
    pool['healthmonitor'].update(name='h', domain_name='www.example.org')
    return document


def places(value, path=()):
    """Paths of all objects and fields below a value."""
    if isinstance(value, dict) and path not in METADATA:
        for name, below in value.items():
            yield (*path, name)
            yield from places(below, (*path, name))


def at(document, path):
    """The object that holds the field, and the field's name."""
    for name in path[:-1]:
        document = document[name]
    return document, path[-1]


class TestDocument(base.TestCase):

    def refused(self, document, *arguments):
        return self.assertRaises(errors.Refused, validation.validate,
                                 document, *arguments)

    def test_full_document_is_accepted(self):
        validation.validate(full_document(), POLICY)

    def test_every_field_is_in_the_full_document(self):
        document = full_document()
        pool = document['pools']['pool']
        for kind, part in (
                (spec.Document, document),
                (spec.Listener, document['listeners']['listener']),
                (spec.Pool, pool), (spec.Member, {
                    **pool['members']['m1'], **pool['members']['m2']}),
                (spec.Tunnel, pool['members']['m2']['tunnel']),
                (spec.SessionPersistence, pool['session_persistence']),
                (spec.HealthMonitor, pool['healthmonitor'])):
            layer_7 = spec.L7_DEFAULTS.get(kind.__name__.lower(), {})
            self.assertEqual(
                set(kind.__annotations__) - layer_7.keys() - OF_PROXIES,
                set(part))

    def reasons(self, paths, change, name=()):
        """Yield why each changed path is refused; errors name the path."""
        for path in paths:
            document = full_document()
            holder, field = at(document, (*path, *name))
            change(holder, field)
            error = self.refused(document)
            self.assertEqual('.'.join((*path, *name)), error.option)
            self.assertTrue(error.instead)
            yield error.why

    def test_every_field_of_another_type_is_named_by_its_path(self):
        list(self.reasons(
            places(full_document()),
            lambda holder, name: holder.update({name: {1j}})))
        # Numbers are no texts, and the reverse.
        document = full_document()
        values = {path: holder[name] for path in places(document)
                  for holder, name in [at(document, path)]}
        for kind, other in (str, 5), (int | float, 'x'):
            list(self.reasons(
                [path for path, value in values.items()
                 if isinstance(value, kind)],
                lambda holder, name, other=other: holder.update(
                    {name: other})))

    def test_every_missing_field_is_named_by_its_path(self):
        self.assertEqual({'it is missing'}, set(self.reasons(
            [path for path in places(full_document())
             if path[-1] not in OPTIONAL | {
                 'listener', 'pool', 'm1', 'm2', '2001:db8:100::10'}],
            dict.pop)))

    def test_unknown_fields_are_named_by_their_paths(self):
        objects = {path[:-1] for path in places(full_document())} - {
            *METADATA, ('listeners',), ('pools',),
            ('pools', 'pool', 'members'), *BY_ID}
        for why in self.reasons(
                objects, lambda holder, name: holder.update({name: 1}),
                ('shiny_new',)):
            self.assertIn('does not know', why)

    def test_long_values_are_not_repeated_in_errors(self):
        document = full_document()
        document['pools']['pool']['protocol'] = 'x' * 5000
        self.assertLess(len(str(self.refused(document))), 300)

    def test_bounds_of_a_health_monitor_are_those_of_the_checks_file(self):
        check = checks_file.SCHEMA['$defs']['check']['properties']
        path_max = checks_file.SCHEMA['$defs']['http']['properties']['path'][
            'maxLength']
        host_max = checks_file.SCHEMA['$defs']['http']['properties']['host'][
            'maxLength']
        values = {'url_path': ['/' + 'a' * (path_max - 1)],
                  'domain_name': ['a' * host_max],
                  'http_method': checks_file.SCHEMA['$defs']['http'][
                      'properties']['method']['enum'],
                  'expected_codes': ['100-599']}
        beyond = {'url_path': ['/' + 'a' * path_max, 'a', '/ä', '/ ', '/\n',
                               ''],
                  'domain_name': ['a' * (host_max + 1), 'ä', '', 'a\n'],
                  'http_method': ['get', 'BREW'],
                  'expected_codes': ['99', '600', '204-200', ''],
                  'http_version': [0.9, 2.0]}
        for name, other in (('delay', 'delay'), ('timeout', 'timeout'),
                            ('rise', 'max_retries'),
                            ('fall', 'max_retries_down')):
            low, high = check[name]['minimum'], check[name]['maximum']
            values[other] = [low, high]
            beyond[other] = [low - 1, high + 1]
        for name, accepted in values.items():
            for value in accepted:
                document = full_document()
                document['pools']['pool']['healthmonitor'][name] = value
                plan = forwarding.plan(
                    document, forwarding.Context(POLICY))
                checks_file.build_document(plan.checks)
        for name, refused in beyond.items():
            for value in refused:
                document = full_document()
                document['pools']['pool']['healthmonitor'][name] = value
                self.assertEqual(f'pools.pool.healthmonitor.{name}',
                                 self.refused(document).option, value)

    def test_addresses_that_the_operator_does_not_allow(self):
        for address, word in (('10.1.2.3', '10.0.0.0/8'),
                              ('198.18.1.6', 'address of an LB node'),
                              ('224.0.0.1', 'no address of a host'),
                              ('0.0.0.0', 'no address of a host'),
                              ('::', 'no address of a host'),
                              ('255.255.255.255', 'no address of a host')):
            for name in ('address', 'monitor_address'):
                document = full_document()
                document['pools']['pool']['members']['m1'][name] = address
                error = self.refused(document, POLICY)
                self.assertEqual(name, error.option)
                self.assertIn(word, error.for_operator)
                # A disabled object receives no packets, and is accepted.
                for part in (document, document['listeners']['listener'],
                             document['pools']['pool']):
                    part['admin_state_up'] = False
                    validation.validate(document, POLICY)
                    part['admin_state_up'] = True

    def test_vip_outside_the_operators_networks(self):
        document = full_document()
        document['vip_address'] = '192.0.2.1'
        document['admin_state_up'] = False
        self.assertEqual('vip_address', self.refused(document, POLICY).option)

    def test_networks_with_bits_behind_their_prefix(self):
        document = full_document()
        document['listeners']['listener']['allowed_cidrs'] = ['192.0.2.1/24']
        error = self.refused(document)
        self.assertEqual('listeners.listener.allowed_cidrs.0', error.option)
        self.assertEqual('use 192.0.2.0/24', error.instead)


class TestVersions(base.TestCase):

    def refused(self, given):
        return self.assertRaises(errors.Refused, validation.read, given)

    def test_newer_version_names_what_is_not_known(self):
        document = full_document()
        document.update(version=spec.VERSION + 1, colour='red')
        document['pools']['pool']['members']['m1']['shape'] = 'round'
        error = self.refused(document)
        self.assertEqual('version', error.option)
        self.assertIn('colour', error.why)
        self.assertIn('pools.pool.members.m1.shape', error.why)

    def test_values_that_are_no_document_are_refused(self):
        for given, option in (([], 'document'), (None, 'document'),
                              ({}, 'version'), ({'version': '1'}, 'version'),
                              ({'version': True}, 'version'),
                              ({'version': 0}, 'version')):
            self.assertEqual(option, self.refused(given).option)

    def test_present_version_is_read_as_it_is(self):
        document = full_document()
        self.assertEqual(full_document(), validation.read(document, POLICY))

    def test_older_version_gets_defaults_of_new_fields(self):
        older = full_document()
        del older['pools']['pool']['members']['m1']['backup']
        with self.newer_code():
            read = validation.read(older)
        self.assertIs(False, read['pools']['pool']['members']['m1']['backup'])
        self.assertEqual(spec.VERSION + 1, read['version'])

    def test_malformed_older_version_is_refused_by_path(self):
        older = full_document()
        older['pools']['pool']['members'] = []
        with self.newer_code():
            self.assertEqual('pools.pool.members', self.refused(older).option)
        del older['pools'], older['id']
        with self.newer_code():
            self.assertEqual('id', self.refused(older).option)

    def test_stored_document_of_a_newer_version_is_not_cut(self):
        document = full_document()
        document['version'] = spec.VERSION + 1
        self.assertRaises(errors.Refused, spec.complete, document)

    @staticmethod
    def newer_code():
        return mock.patch.object(spec, 'VERSION', spec.VERSION + 1)


class TestChange(base.TestCase):

    def change(self, kind, action, **more):
        owner = changes.PARENTS.get(kind, 'load_balancer_id')
        return {'object': kind, 'action': action, 'object_id': 'x',
                owner: 'y', **more}

    def refused(self, change, *arguments):
        return self.assertRaises(errors.Refused, validation.check_change,
                                 change, *arguments)

    def test_changes_of_every_object_are_accepted(self):
        document = full_document()
        pool = document['pools']['pool']
        for name in ('tunnel', 'way'):  # no fields of the API
            del pool['members']['m2'][name]
        del document['announcing']
        monitor = dict(pool['healthmonitor'])
        for kind, fields in (
                ('loadbalancer', document), ('pool', pool),
                ('listener', document['listeners']['listener']),
                ('member', pool['members']['m1']),
                ('healthmonitor', monitor)):
            for action in ('create', 'update'):
                validation.check_change(
                    self.change(kind, action, fields=fields), POLICY)
                # Null means "back to the default".
                validation.check_change(self.change(
                    kind, action, fields=dict.fromkeys(fields)), POLICY)
            validation.check_change(self.change(kind, 'delete'), POLICY)
        validation.check_change(self.change(
            'member', 'replace', members=pool['members']) | {
                'object_id': None}, POLICY)

    def test_fields_are_named_by_their_paths(self):
        document = full_document()
        for name in ('tunnel', 'way'):
            del document['pools']['pool']['members']['m2'][name]
        monitor = document['pools']['pool']['healthmonitor']
        monitor['url_path'] = '/größe'
        path = 'pools.pool.healthmonitor.url_path'
        self.assertEqual(path, self.refused(self.change(
            'loadbalancer', 'create', fields=document)).option)
        self.assertEqual('healthmonitor.url_path', self.refused(self.change(
            'pool', 'create', fields=document['pools']['pool'])).option)
        self.assertEqual(path, self.refused(self.change(
            'listener', 'create', fields={},
            pools=document['pools'])).option)
        self.assertEqual('url_path', self.refused(self.change(
            'healthmonitor', 'update', fields=monitor)).option)
        self.assertEqual('members.a.weight', self.refused(self.change(
            'member', 'replace', members={'a': {'weight': 257}})).option)
        self.assertEqual('shiny_new', self.refused(self.change(
            'member', 'update', fields={'shiny_new': 1})).option)

    def test_missing_parts_of_a_change_are_named(self):
        for name, change in (
                ('fields', self.change('pool', 'create')),
                ('fields', self.change('member', 'update')),
                ('members', self.change('member', 'replace')),
                ('object_id', self.change('pool', 'delete') | {
                    'object_id': None}),
                ('object', {}),
                ('object', self.change('flavor', 'create')),
                ('action', self.change('pool', 'destroy'))):
            self.assertEqual(name, self.refused(change).option)
        for kind, name in (('member', 'pool_id'), ('l7rule', 'l7policy_id'),
                           ('l7policy', 'listener_id'),
                           ('listener', 'load_balancer_id')):
            change = self.change(kind, 'delete')
            del change[name]
            self.assertEqual(name, self.refused(change).option)

    def test_addresses_that_the_operator_does_not_allow(self):
        bad = {'address': '10.0.0.1'}
        pools = {'p': {'members': {'m': bad}}}
        for path, change in (
                ('address', self.change('member', 'create', fields=bad)),
                ('members.m.address', self.change(
                    'member', 'replace', members={'m': bad})),
                ('members.m.address', self.change(
                    'pool', 'create', fields=pools['p'])),
                ('pools.p.members.m.address', self.change(
                    'listener', 'create', fields={}, pools=pools)),
                ('pools.p.members.m.address', self.change(
                    'loadbalancer', 'create', fields={'pools': pools})),
                ('vip_address', self.change(
                    'loadbalancer', 'create',
                    fields={'vip_address': '192.0.2.1'}))):
            validation.check_change(copy.deepcopy(change))
            self.assertEqual(path, self.refused(change, POLICY).option)

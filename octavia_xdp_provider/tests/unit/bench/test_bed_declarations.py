# SPDX-License-Identifier: Apache-2.0
"""Declarations of beds: what they mean, and each one that is refused."""

import copy
import pathlib
import textwrap

import fixtures
import yaml

from bench import errors
from bench.beds import declaration
from bench.beds import reading
from bench.declarations import definitions
from bench.declarations import document
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents
from octavia_xdp_provider.tests.unit.bench import declared
from octavia_xdp_provider.tests.unit.bench import rack


class TestMeaning(declared.BedCase):

    def test_hosts(self):
        bed = self.read()
        self.assertEqual(['gen', 'router', 'lb1', 'lb2', 'sink'],
                         list(bed.hosts))
        self.assertEqual(('lb', 'load_balancer'),
                         (bed.hosts['lb2'].group, bed.hosts['lb2'].role))
        self.assertEqual({'net.ipv4.conf.all.rp_filter': 0,
                          'net.ipv4.ip_forward': 1},
                         bed.hosts['router'].sysctl)
        self.assertEqual(('203.0.113.1/32',), bed.hosts['sink'].loopback)
        self.assertEqual(declaration.NAMESPACES, bed.provider)

    def test_pairs_have_networks_of_their_own(self):
        bed = self.read()
        ends = bed.ends('router')
        self.assertEqual(['front', 'uplink1', 'uplink2', 'back'], list(ends))
        self.assertEqual(('198.19.1.5/30', '2001:db8:1::5/126'),
                         ends['uplink2'][1].addresses)
        (link, end), = bed.ends('lb2').values()
        self.assertEqual(('uplink', 'uplink'), (link.name, end.interface))
        self.assertEqual(('198.19.1.6/30', '2001:db8:1::6/126'),
                         end.addresses)
        self.assertEqual(('198.19.0.2/24',), ends['front'][1].addresses)

    def test_given_addresses(self):
        (_, end), = self.read().ends('sink').values()
        self.assertEqual(('198.19.2.2/24', '198.19.2.3/24'), end.addresses)

    def test_settings_of_a_host_replace_those_of_its_link(self):
        bed = self.read()
        (_, lb), = bed.ends('lb1').values()
        self.assertEqual((1600, 2, {'tx': False, 'gro': True}, False), (
            lb.nic.mtu, lb.nic.queues, lb.nic.offloads, lb.nic.receive_xdp))
        router = bed.ends('router')['uplink1'][1]
        self.assertEqual((1600, None, {'tx': False}, True), (
            router.nic.mtu, router.nic.queues, router.nic.offloads,
            router.nic.receive_xdp))

    def test_routes_go_to_each_host_of_a_name(self):
        routes = self.read().hosts['router'].routes
        self.assertEqual(declaration.Route(
            '203.0.113.0/24', ('198.19.1.2', '198.19.1.6'), 1500), routes[0])
        self.assertEqual(('2001:db8:1::2', '2001:db8:1::6'), routes[1].via)

    def test_a_segment_joins_all(self):
        bed = self.read(self.changed(
            ('ends: [router, sink]', 'ends: [router, lb, sink]\n'
             '    kind: segment\n    networks: [198.19.2.0/24]'),
            ('    addresses:\n      router: [198.19.2.1/24]\n'
             '      sink: [198.19.2.2/24, 198.19.2.3/24]\n', '')))
        link = bed.links[-1]
        self.assertTrue(link.segment)
        self.assertEqual(
            {'router': '198.19.2.1/24', 'lb1': '198.19.2.2/24',
             'lb2': '198.19.2.3/24', 'sink': '198.19.2.4/24'},
            {end.host: end.addresses[0] for end in link.ends})

    def test_another_provider(self):
        self.assertEqual('guest', self.read(provider='guest').provider)

    def test_our_beds(self):
        paths = sorted((definitions.FOLDER / 'beds').glob('*.yaml'))
        self.assertIn('one-node', [path.stem for path in paths])
        for path in paths:
            for provider in declaration.NAMESPACES, declaration.GUEST:
                bed = reading.read(
                    definitions.find('beds', path.stem), provider)
                self.assertEqual(path.stem, bed.name)
                self.assertTrue(bed.content['description'], path)

    def test_a_path_is_no_name_of_ours(self):
        self.assertEqual(pathlib.Path('other.yaml'),
                         definitions.find('beds', 'other.yaml'))

    def test_what_is_neither_a_name_nor_a_path(self):
        error = self.assertRaises(errors.BenchError, definitions.find, 'beds',
                                  'other')
        for part in 'no bed "other"', 'one-node', 'ends with .yaml':
            self.assertIn(part, str(error))


class TestRefused(declared.BedCase):

    def check(self, where, changes, *parts):
        self.check_refused(declared.GOOD, where, changes, parts)

    def test_unknown_role(self):
        self.check('role: clients',
                   [('role: generator', 'role: clients')], 'clients',
                   'one of: generator, load_balancer, router, member, sink')

    def test_unknown_keys(self):
        self.check('gen:', [('role: gen', 'rôle: gen')], 'no "role"',
                   'unknown key "rôle"')
        self.check('mtv:', [('    mtu', '    mtv')], '"mtv"', '"mtu"')

    def test_a_host_twice(self):
        self.check('lb:', [('  sink:\n', '  lb:\n')], '"lb"', 'second time')
        self.check('lb2:', [('  sink:\n', '  lb2:\n'),
                        ('ends: [router, sink]', 'ends: [router, lb2]')],
                   '"lb2"', 'twice', '"lb"')

    def test_a_host_twice_at_a_link(self):
        self.check('ends: [', [('[router, lb]', '[lb, lb2]')], '"lb2" twice')

    def test_a_link_to_nowhere(self):
        self.check('ends: [', [('[router, lb]', '[router, lb3]')],
                   'no host "lb3"', 'gen, router, lb, sink')

    def test_a_link_of_one_or_of_three(self):
        self.check('ends: [', [('[router, lb]', '[router]')], '2 or more')
        self.check('ends: [',
                   [('[router, lb]', '[gen, router, lb]')], '3 ends',
                   'kind: segment')

    def test_names_that_are_too_long(self):
        self.check('a_link_of', [('front:', 'a_link_of_some_length:')],
                   '"a_link_of_some_length"', '13 at most')
        self.check('a_generator_of', [('  gen:', '  a_generator_of_traffic:')],
                   '16 at most')
        self.check('name: xxx', [('some', 'x' * 33)], '32 at most')

    def test_names_that_linux_has(self):
        self.check('lo:', [('front:', 'lo:')], '"lo"')

    def test_an_interface_name_twice(self):
        self.check('uplink:', [('front:', 'uplink2:')],
                   'both give "router" an interface "uplink2"')

    def test_an_address_outside_of_its_network(self):
        self.check('sink: [198',
                   [('sink: [198.19.2.2/24', 'sink: [198.19.3.2/24')],
                   '198.19.3.2/24', 'outside of 198.19.2.0/24')
        self.check('sink: [198',
                   [('    addresses:', '    networks: [198.19.2.0/25]\n'
                         '    addresses:'), ('2.2/24', '2.200/25')],
                   '198.19.2.200/25', 'outside of the networks')

    def test_duplicate_addresses(self):
        self.check('sink: [198',
                   [('sink: [198.19.2.2/24', 'sink: [198.19.2.1/24')],
                   '198.19.2.1', '"router"', '"sink"')
        self.check('loopback:', [('203.0.113.1/32', '198.19.2.1/32')],
                   '198.19.2.1', '"router"')

    def test_networks_that_overlap(self):
        self.check('networks:', [('198.19.1.0/24', '198.19.0.128/25')],
                   'overlaps 198.19.0.0/24', '"front"')
        self.check('router: [198', [('router: [198.19.2.1/24]',
                         'router: [198.19.1.1/24]')], 'overlaps', '"uplink"')

    def test_networks_that_are_too_small(self):
        self.check('networks:', [('198.19.1.0/24', '198.19.1.0/30')],
                   '198.19.1.0/30', 'no room for the 2 pairs')
        self.check('networks:', [('198.19.0.0/24', '198.19.0.0/31')],
                   'no room for the 2 ends')

    def test_two_networks_of_a_family(self):
        self.check('networks:',
                   [('[198.19.0.0/24]', '[198.19.0.0/24, 10.0.0.0/8]')],
                   'second network of IPv4')

    def test_networks_with_host_bits(self):
        self.check('networks:', [('198.19.0.0/24', '198.19.0.1/24')],
                   'without host bits')

    def test_a_link_without_addresses(self):
        self.check('front:', [('    networks: [198.19.0.0/24]\n', '')],
                   'neither "networks" nor "addresses"')
        self.check('addresses:', [('      router: [198.19.2.1/24]\n', '')],
                   'end "router"', 'no address')
        self.check('lb1: [198', [('      sink: [', '      lb1: [')], '"lb1"',
                   'no end of link "back"')

    def test_addresses_of_several_pairs(self):
        self.check('addresses:', [
            ("    networks: [198.19.1.0/24, '2001:db8:1::/64']\n", ''),
            ('    offloads: {tx: off}', '    offloads: {tx: off}\n'
             '    addresses: {router: [198.19.1.1/24]}')], '2 pairs')

    def test_missing_roles(self):
        for old, needed in (('generator', 'generator'),
                            ('load_balancer', 'load_balancer'),
                            ('sink', 'member or sink')):
            self.check('hosts:', [(f'role: {old}', 'role: router')],
                       f'no host has the role {needed}')

    def test_next_hops(self):
        self.check('- {to:', [('via: router', 'via: nowhere')], '"nowhere"',
                   'gen, router, lb, sink')
        self.check('- {to:', [('via: router', 'via: 198.19.1.1')],
                   '198.19.1.1 is on no link of "gen"')
        self.check('- {to:', [('via: router', 'via: sink')],
                   'no IPv4 address on a link with "gen"')
        self.check('- {to:', [('to: 203.0.113.0/24', "to: '2001:db8::/64'")],
                   'no IPv6 address')

    def test_settings_of_no_interface(self):
        self.check('back: {queues',
                   [('      uplink: {queues', '      back: {queues')],
                   '"lb1"', '"back"')

    def test_what_a_provider_cannot_do(self):
        self.check('rss:', [('mtu: 1600', 'rss: {equal: 2}')], '"rss"',
                   'namespaces')
        self.check('sysctl:', [('{net.ipv4.conf.all.rp_filter: 0}',
                         '{kernel.numa_balancing: 0}')],
                   'kernel.numa_balancing', 'whole machine')
        self.check('version:', [('sysctl: {net.ipv4.conf', 'software:\n'
                         '  version: 1.0\nsysctl: {net.ipv4.conf')],
                   'software.version is 1.0', 'a text')
        self.check('version:', [('sysctl: {net.ipv4.conf', 'software:\n'
                         '  version: "1.0"\nsysctl: {net.ipv4.conf')],
                   'this checkout')
        self.check('packages:', [('sysctl: {net.ipv4.conf', 'software:\n'
                         '  packages: .\nsysctl: {net.ipv4.conf')],
                   'this checkout')


class TestSchema(base.TestCase):

    def test_each_object_is_closed_or_has_names_of_its_own(self):
        """Or a wrong key would be ignored."""
        def walk(schema, where):
            if schema.get('type') == 'object' and 'properties' in schema:
                self.assertIs(False, schema['additionalProperties'], where)
            for key, value in schema.items():
                if isinstance(value, dict):
                    walk(value, f'{where}.{key}')
        walk(copy.deepcopy(reading.SCHEMA), '')


class TestDocument(base.TestCase):

    def test_each_key_is_in_the_reference(self):
        text = (documents.SOURCE / 'contributor/benchmarks/beds.rst'
                ).read_text()

        def keys(schema):
            for name, value in schema.get('properties', {}).items():
                yield name
                yield from keys(value)
            for value in schema.get('$defs', {}).values():
                yield from keys(value)
            for part in 'items', 'additionalProperties':
                if isinstance(schema.get(part), dict):
                    yield from keys(schema[part])
        names = set(keys(reading.SCHEMA))
        self.assertLess(40, len(names))
        self.assertEqual(set(), {
            name for name in names if f'``{name}``' not in text})

    def test_each_bed_is_in_the_reference(self):
        text = (documents.SOURCE / 'contributor/benchmarks/beds.rst'
                ).read_text()
        for path in (definitions.FOLDER / 'beds').glob('*.yaml'):
            self.assertIn(f'``{path.stem}``', text)

    def test_the_example_is_a_bed(self):
        text = (documents.SOURCE / 'contributor/benchmarks/beds.rst'
                ).read_text()
        block = text.partition('::\n\n')[2].partition('\n\n   A bed')[0]
        block = block.partition('\n\nA bed')[0]
        bed = reading.from_document(document.parse(
            textwrap.dedent(block), declared.PATH, reading.SCHEMA))
        self.assertEqual(['generator', 'lb1', 'lb2', 'sink'],
                         list(bed.hosts))

    def test_the_real_machines_are_a_bed(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'bench').write_text('')
        rack_bed = rack.declaration()
        self.assertEqual('~/.ssh/bench', rack_bed['ssh']['key'])
        rack_bed['ssh']['key'] = 'bench'
        for host in rack_bed['hosts'].values():
            host['ssh']['host_key'] = host['ssh']['host_key'].replace('…', '')
        bed = reading.from_document(document.parse(
            yaml.safe_dump(rack_bed), folder / 'rack.yaml', reading.SCHEMA))
        self.assertEqual('HEAD', bed.software.revision)
        self.assertEqual({'generator', 'lb', 'member'}, set(bed.hosts))

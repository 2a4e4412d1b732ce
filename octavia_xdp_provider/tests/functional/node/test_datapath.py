# SPDX-License-Identifier: Apache-2.0
"""The binding against the running kernel: needs root."""

import errno
import os
import threading

from oslotest import base

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support.private_node import DNS
from octavia_xdp_provider.tests.functional.support.private_node import HTTP
from octavia_xdp_provider.tests.functional.support.private_node import HTTP_V6
from octavia_xdp_provider.tests.functional.support.private_node import SIGNALS
from octavia_xdp_provider.tests.functional.support.private_node import SLOTS
from octavia_xdp_provider.tests.functional.support.private_node import VIP


class TestEnumerations(base.BaseTestCase):

    def assert_lists(self, name, prefix, members, counted):
        """An enum of the compiled library has these, and their number."""
        compiled = {key.removeprefix(prefix): value for key, value in
                    self.ffi.typeof(f'enum {name}').relements.items()}
        if counted:
            self.assertEqual(len(members), compiled.pop('OUTCOMES'))
        self.assertEqual(
            {member.name: member.value for member in members}, compiled)

    def test_enums_of_the_compiled_library_are_those_of_the_contract(self):
        self.ffi = datapath.Library().ffi
        self.assert_lists('oxp_outcome', 'OXP_', enumerations.Outcome, True)
        self.assert_lists('oxp_probe_outcome', 'OXP_PROBE_',
                          enumerations.ProbeOutcome, True)
        self.assert_lists('oxp_encapsulation', 'OXP_',
                          enumerations.Encapsulation, False)


class TestOpening(private_node.PrivateState):

    def test_opening_without_creation_needs_what_is_there(self):
        self.assert_fails(errno.ENOENT, self.open, create=False)

    def test_create_then_open(self):
        with self.open() as first:
            self.assertEqual(16, first.info().services_max)
        with self.open(create=False) as second:
            self.assertEqual(SLOTS, second.info().slots_max)
        # sizes are those of the creation
        with self.open(services_max=99) as third:
            self.assertEqual(16, third.info().services_max)

    def test_directory_outside_a_bpffs_is_refused(self):
        text = self.assert_fails(
            errno.EINVAL, self.open,
            pin_directory=os.path.dirname(self.bpffs))
        self.assertIn('BPF file system', text)

    def test_half_of_a_creation_is_replaced(self):
        os.makedirs(os.path.join(self.pins, 'maps-new'))
        self.open().info()

    def test_destroyed_by_another(self):
        first, second = self.open(), self.open()
        first.destroy()
        self.assertFalse(os.path.exists(self.pins))
        self.assert_fails(errno.ESTALE, second.info)
        self.open().info()

    def test_closed_datapath_refuses_calls(self):
        opened = self.open()
        opened.close()
        opened.close()
        self.assert_fails(errno.EBADF, opened.info)


class TestServices(private_node.PrivateState):

    def setUp(self):
        super().setUp()
        self.datapath = self.open()

    def set(self, key, members, slots=SLOTS, **settings):
        return self.datapath.set_service(
            key, members, datapath.Settings(slots=slots, **settings))

    def test_service_is_set_shown_picked_and_deleted(self):
        members = [datapath.Member('10.1.0.2', 2), datapath.Member('10.1.0.1')]
        self.assertTrue(self.set(HTTP, members))
        self.assertFalse(self.set(HTTP, reversed(members)))
        self.assertTrue(self.set(DNS, members[:1]))
        services = self.datapath.services()
        self.assertEqual([HTTP, DNS], [service.key for service in services])
        self.assertEqual([2, 1], [service.enabled for service in services])
        states = self.datapath.members(HTTP)
        self.assertEqual([('10.1.0.1', 1), ('10.1.0.2', 2)],
                         [(state.address, state.weight) for state in states])
        self.assertEqual(
            instrumented.Library().maglev(
                {'10.1.0.1': 1, '10.1.0.2': 2}, SLOTS),
            self.datapath.table(HTTP))
        self.assertIn(self.datapath.pick(HTTP, '198.51.100.1', 1024),
                      ('10.1.0.1', '10.1.0.2'))
        self.assertEqual([], self.datapath.faults())
        self.assertEqual(1, self.datapath.delete_services([HTTP]))
        self.assertEqual(0, self.datapath.delete_services([HTTP]))
        self.assertIsNone(self.datapath.service(HTTP))
        self.assertEqual(1, self.datapath.info().services)

    def test_what_the_result_handler_asks(self):
        self.set(HTTP, [datapath.Member('10.1.0.1', check=1),
                        datapath.Member('10.1.0.2', check=2)])
        self.set(DNS, [datapath.Member('10.1.0.3', check=3)])
        before = self.datapath.generations()
        self.assertEqual(2, len(before))
        self.assertEqual(set(), self.datapath.known_checks())
        self.datapath.apply_health([(1, True), (3, False)])
        self.assertEqual({1, 3}, self.datapath.known_checks())
        after = self.datapath.generations()
        changed = [index for index in before if before[index] != after[index]]
        self.assertEqual([self.datapath.service(HTTP).index], changed)

    def test_health_switches_all_tables_of_a_check(self):
        self.set(HTTP, [datapath.Member('10.1.0.1', check=1),
                        datapath.Member('10.1.0.2', check=2)])
        self.set(DNS, [datapath.Member('10.1.0.1', check=1)])
        # another process's view: the result handler
        with self.open(create=False) as handler:
            self.assertEqual(2, handler.apply_health([(1, True)]))
            self.assertEqual(0, handler.apply_health([(1, True), (9, True)]))
            self.assertEqual(1, handler.apply_health([(2, True)]))
        self.assertEqual(2, self.datapath.service(HTTP).enabled)
        state = self.datapath.members(HTTP)[0]
        self.assertTrue(state.healthy and state.known)
        self.assertEqual(2, self.datapath.apply_health([(1, False)]))
        self.assertEqual(0, self.datapath.service(DNS).enabled)
        self.assertEqual([], self.datapath.faults())

    def test_every_setting_comes_back(self):
        for key, settings in (
                (HTTP, {'flags': datapath.ServiceFlag.SOURCE,
                        'source_length_v4': 24, 'source_length_v6': 56,
                        'idle_timeout_s': 70, 'new_flow_rate': 80,
                        'new_flow_burst': 90}),
                (DNS, {'flags': datapath.ServiceFlag.QUIC,
                       'encapsulation': datapath.Encapsulation.GUE}),
                (SIGNALS, {'encapsulation': datapath.Encapsulation.DSCP,
                           'dscp': 46}),
                (HTTP_V6, {'encapsulation': datapath.Encapsulation.SRV6,
                           'sid_function': 0x1234})):
            members = [datapath.Member(
                '2001:db8:1::1' if key == HTTP_V6 else '10.1.0.1')]
            self.assertTrue(self.set(key, members, **settings))
            self.assertFalse(self.set(key, members, **settings))
            service = self.datapath.service(key)
            self.assertEqual(key, service.key)
            for name, value in settings.items():
                self.assertEqual(value, getattr(service.settings, name), name)
            self.assertTrue(self.set(key, members))
        self.assertEqual([], self.datapath.faults())

    def test_allowed_networks_come_back_and_go(self):
        networks = ('192.0.2.0/28', '198.51.100.0/24', '2001:db8::/32')
        self.set(HTTP, [], allowed=networks)
        self.assertEqual(sorted(networks),
                         sorted(self.datapath.allowed(HTTP)))
        self.assertFalse(self.set(HTTP, [], allowed=networks))
        self.assertTrue(self.set(HTTP, [], allowed=None))
        self.assertEqual([], self.datapath.allowed(HTTP))

    def test_many_services_in_one_call(self):
        keys = [HTTP._replace(port=port) for port in range(1, 9)]
        good = (datapath.Settings(slots=SLOTS, allowed=('192.0.2.0/24',)),
                (datapath.Member('10.1.0.1'), datapath.Member('10.1.0.2')))
        bad = (datapath.Settings(slots=1000), good[1])
        worse = (good[0], (datapath.Member('10.1.0.3', weight=257),))
        wanted = dict.fromkeys(keys, good)
        wanted.update({keys[2]: bad, keys[5]: worse})
        changed, refused = self.datapath.set_services(wanted)
        self.assertEqual(set(keys) - {keys[2], keys[5]}, changed)
        self.assertEqual({keys[2], keys[5]}, set(refused))
        self.assertIn('1000', refused[keys[2]].text)
        self.assertIn('257', refused[keys[5]].text)
        self.assertEqual(6, self.datapath.info().services)
        wanted.update({keys[2]: good, keys[5]: good})
        self.assertEqual(({keys[2], keys[5]}, {}),
                         self.datapath.set_services(wanted))
        for key in keys:
            self.assertEqual(['10.1.0.1', '10.1.0.2'], [
                state.address for state in self.datapath.members(key)])
            self.assertEqual(['192.0.2.0/24'], self.datapath.allowed(key))
        self.assertEqual((set(), {}), self.datapath.set_services({}))

    def test_threads_may_share_one_datapath(self):
        def work(number):
            key = datapath.Key(VIP, 'TCP', number)
            for count in range(10):
                self.set(key, [datapath.Member(f'10.1.{number}.{n}')
                               for n in range(count % 4)])
        threads = [threading.Thread(target=work, args=(number,))
                   for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], self.datapath.faults())
        self.assertEqual(4, self.datapath.info().services)

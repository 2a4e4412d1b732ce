# SPDX-License-Identifier: Apache-2.0
"""Libraries of different layouts hand the node to each other: needs root."""

import errno
import json
import os
import signal
import time

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import upgrading
from octavia_xdp_provider.tests.support import form

Encapsulation = datapath.Encapsulation


def slots_before(stream):
    """Return the number before, from the first service that has it."""
    record = stream.index(b'before'.ljust(16, b'\0'))
    return int.from_bytes(stream[record + 24:record + 32], 'little')


class TestStillNode(upgrading.UpgradeCase):
    """Without packets: state is the same, failures change nothing."""

    def test_state_is_the_same_up_and_down(self):
        dropped = self.drop_packets(3)
        self.drop_martians(4)
        before = self.state()
        self.assertEqual(4, sum(service.drops for service in before[0]))
        stored = self.exported()
        for layout in (1001, 1002, upgrading.LAYOUT):
            self.upgrade(layout)
            self.assertEqual(before, self.state())
            with self.open_layout() as opened:
                self.assertEqual(dropped, opened.outcomes()[
                    datapath.Outcome.DROP_MALFORMED])
        self.assertEqual(stored, self.exported())
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_tunnels_are_the_same_up_and_down(self):
        tunnels = [
            None, datapath.Tunnel('10.9.0.1', Encapsulation.GENEVE, 7),
            datapath.Tunnel('fd00:9::', Encapsulation.SRV6, 0xfedc1234),
            datapath.Tunnel('fd00:9::1', Encapsulation.GENEVE, 8, True)]
        self.node_state.set_service(private_node.HTTP, [
            datapath.Member(address, port=8080, tunnel=tunnel)
            for address, tunnel in zip(upgrading.MEMBERS, tunnels,
                                       strict=False)])
        before = self.state()
        self.assertEqual(tunnels, [member.tunnel for member in before[1]])
        for layout in (1001, upgrading.LAYOUT):
            self.upgrade(layout)
            self.assertEqual(before, self.state())

    @form.in_long_form
    def test_owners_before_of_closed_slots_are_the_same_up_and_down(self):
        """With a second chance; also where the number of slots changes."""
        settings = datapath.Settings(
            flags=datapath.ServiceFlag.SECOND_CHANCE,
            encapsulation=Encapsulation.GUE, idle_timeout_s=10)
        for count, slots in ((6, 251), (7, 251), (8, 509)):
            self.node_state.set_service(
                private_node.HTTP, [
                    datapath.Member(address)
                    for address in upgrading.MEMBERS[:count]],
                settings._replace(slots=slots))
            self.close_slots()
            stored = self.exported()
            self.assertIn(b'changed slots', stored)
            self.assertEqual(count != 7, slots_before(stored) != slots)
            for layout in (1001, 1002, upgrading.LAYOUT):
                self.upgrade(layout)
                with self.open_layout() as opened:
                    self.assertEqual([], opened.faults())
            self.assertEqual(stored, self.exported())
            self.node_state = self.open()

    def close_slots(self):
        """No packet was forwarded: it takes two seconds."""
        self.wait('end of open slots', lambda: not self.node_state.tick())

    def drop_packets(self, count):
        """Packets that are cut short; the counters of what became of them."""
        frame = (self.uplinks[0].ethernet() +
                 upgrading.tcp_packet(20000, 0))[:-9]
        index = self.index(self.uplinks[0])
        with self.inside(self.node):
            self.node_state.run([(frame, index)] * count)
        return count, count * len(frame)

    def drop_martians(self, count):
        """Packets from the VIP itself: drops of the service."""
        packet = frames.udp_packet(private_node.VIP, private_node.VIP, 7, 53,
                                   b'')
        with self.inside(self.node):
            self.node_state.run([(self.uplinks[0].ethernet() + packet,
                                  self.index(self.uplinks[0]))] * count)

    def exported(self):
        """The stream, without the number of waits in it."""
        with self.open_layout() as opened, open(
                os.path.join(os.path.dirname(self.lock), 'state'),
                'w+b') as file:
            opened._call('oxp_export', file.fileno())
            file.seek(0)
            return file.read()

    def test_dry_run_changes_nothing(self):
        before, program = self.exported(), self.program()
        done = self.upgrade(1001, dry_run=True)
        self.assertEqual((upgrading.LAYOUT, 1001, 2, 10),
                         (done.layout_before, done.layout_after,
                          done.services, done.members))
        self.assertEqual(15, done.maps_handed)
        self.assertEqual(10, done.maps_new)
        self.assertGreater(done.map_bytes, 1 << 20)
        self.assertEqual([self.index(self.uplinks[0])],
                         [interface.index for interface in done.interfaces])
        self.assertNotEqual(done.interfaces[0].tag_before, done.tag_after)
        self.assertEqual((before, program), (self.exported(), self.program()))
        # this one is still the state of those who have it open
        self.assertEqual(2, self.node_state.info().services)
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_program_that_does_not_load_changes_nothing(self):
        before, program = self.exported(), self.program()
        for dry_run in (True, False):
            text = None
            try:
                self.upgrade(1003, dry_run=dry_run)
            except datapath.DatapathError as error:
                text = error.text
            self.assertIn('cannot load', text or '')
            self.assertEqual((before, program),
                             (self.exported(), self.program()))
            self.assertEqual(2, self.node_state.info().services)
            self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_users_of_the_state_before_get_errors(self):
        self.upgrade(1001)
        self.assert_fails(errno.ESTALE, self.node_state.info)
        self.assert_fails(errno.ESTALE, self.set_members, self.node_state,
                          upgrading.MEMBERS)
        self.assert_fails(errno.EPROTO, self.open)

    def test_tool_upgrades_and_reports(self):
        words = self.tool_words(1001)
        text = private_node.command(*words, '--dry-run')
        self.assertIn('nothing was changed', text)
        self.assertIn('up0', text)
        done = json.loads(private_node.command(*words, '--json'))
        self.assertEqual((upgrading.LAYOUT, 1001, ['up0'], False),
                         (done['layout_before'], done['layout_after'],
                          [uplink['name'] for uplink in done['interfaces']],
                          done['dry_run']))
        self.layout = 1001
        self.assertEqual('', self.state()[3] or '')
        self.assertIn('nothing to do', private_node.command(*words))


class TestWithPackets(upgrading.WithPackets):

    def run_upgrades(self, *layouts):
        with self.stream:
            time.sleep(0.3)
            for layout in layouts:
                self.upgrade(layout)
                time.sleep(0.3)

    def test_shared_maps_lose_no_packet(self):
        self.run_upgrades(1001, upgrading.LAYOUT, 1001, upgrading.LAYOUT)
        self.assert_nothing_lost()
        self.assert_counted()

    def test_copied_maps_lose_no_packet_and_move_few_flows(self):
        # a flow whose second packet comes within the milliseconds between
        # the switch and the second copy is not remembered yet
        self.run_upgrades(1002, upgrading.LAYOUT, 1002, 1001)
        self.assert_nothing_lost(moved=8)
        self.assert_counted()

    def test_flows_that_begin_before_the_switch_are_remembered(self):
        """Flows remembered after the rest was copied are taken over."""
        ports = range(25000, 25400)
        process = self.child(1002, link_updates='S')
        self.wait_until_stopped(process)
        self.stream.open_flows(ports)
        time.sleep(0.2)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(0, process.wait())
        self.layout = 1002
        for port in ports:
            self.stream.send(port)
        with self.stream:
            time.sleep(0.3)
        self.assert_nothing_lost()
        self.assert_counted()


@form.in_long_form
class TestWithManyServices(upgrading.WithPackets):
    """CPUs add what they count in turns: what is pending comes along."""

    MANY = 130  # usual.c

    def open(self, **options):
        return super().open(**{'services_max': 2 * self.MANY,
                               'members_max': 4 * self.MANY, **options})

    def setUp(self):
        super().setUp()
        for port in range(1000, 1000 + self.MANY):
            self.node_state.set_service(
                private_node.HTTP._replace(port=port),
                [datapath.Member(upgrading.MEMBERS[0])],
                datapath.Settings(slots=251))
        self.tick()

    def tick(self):
        """Wait as the agent does: packets' notes change once a second."""
        time.sleep(1.1)
        with self.open_layout() as opened:
            opened.tick()

    def test_no_packet_is_counted_twice_or_lost(self):
        with self.stream:
            for layout in (1001, 1002, upgrading.LAYOUT):
                time.sleep(0.3)
                self.upgrade(layout)
                self.tick()
        self.assert_nothing_lost(moved=8)
        self.assert_counted()

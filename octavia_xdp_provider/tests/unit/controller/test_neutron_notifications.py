# SPDX-License-Identifier: Apache-2.0
"""Objects of Neutron's notifications, and the load balancers they affect.

Messages have the form in which Neutron's API server sends them.
"""

import json

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import notifications
from octavia_xdp_provider.controller.zero_touch import notified
from octavia_xdp_provider.tests.unit import base

PORT, GROUP, SET = 'port', 'group', 'set'
MEMBER = findings.Wanted('red', '10.0.0.11', 'sub-red')
OTHER = findings.Wanted('blue', '2001:db8::1')
ROW = {'id': PORT, 'fixed_ips': [
    {'subnet_id': 'sub-red', 'ip_address': '10.0.0.11'}],
    'security_groups': [GROUP], 'binding:host_id': 'hv1'}


def message(event_type, payload, envelope=True):
    body = {'message_id': 'm', 'publisher_id': 'network.control',
            'event_type': event_type, 'priority': 'INFO',
            'payload': payload, 'timestamp': '2026-01-01 00:00:00.000000'}
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(body)}
                      if envelope else body)


def port(key=PORT, groups=(GROUP,)):
    return findings.Port(
        id=key, project_id='red', host='hv1', migrating_to=None,
        status='ACTIVE', vif_type='ovs', vnic_type='normal', mac='m',
        address='10.0.0.11', subnet_id='sub-red', network_id='n', mtu=1442,
        gateway_mac='g', security_enabled=True,
        security_group_ids=tuple(groups), rules=(), revision=1)


class TestParse(base.TestCase):

    def test_hint_of_a_port_has_id_addresses_and_groups(self):
        wanted = notifications.Hint(
            frozenset([PORT]), frozenset(['10.0.0.11']), frozenset([GROUP]))
        for action, more in (('create', {}), ('update', {}),
                             ('delete', {'port_id': PORT})):
            for envelope in (True, False):
                self.assertEqual(wanted, notifications.parse(message(
                    f'port.{action}.end', {'port': ROW, **more}, envelope)))
        self.assertEqual(wanted, notifications.parse(message(
            'port.create.end', {'ports': [ROW]})))
        self.assertEqual(
            notifications.Hint(frozenset([PORT])), notifications.parse(
                message('port.delete.end', {'port_id': PORT, 'port': {}})))

    def test_hint_of_a_rule_has_its_group(self):
        for event, payload in (
                ('security_group.update', {'security_group': {'id': GROUP}}),
                ('security_group.delete', {'security_group_id': GROUP}),
                ('address_group.update', {'address_group': {'id': GROUP}}),
                ('security_group_rule.create', {'security_group_rule': {
                    'id': 'rule', 'security_group_id': GROUP}})):
            self.assertEqual(
                notifications.Hint(groups=frozenset([GROUP])),
                notifications.parse(message(f'{event}.end', payload)), event)
        # The message about a deleted rule also has the rule's own id.
        self.assertIn(GROUP, notifications.parse(message(
            'security_group_rule.delete.end', {
                'security_group_rule_id': 'rule', 'security_group_rule': {
                    'id': 'rule', 'security_group_id': GROUP}})).groups)

    def test_irrelevant_messages_have_empty_hints(self):
        for event, payload in (
                ('port.update.start', {'port': ROW}),
                ('network.update.end', {'network': {'id': PORT}}),
                ('port.update.end', {'port': None}),
                ('port.update.end', {'port': {
                    'id': 7, 'fixed_ips': 'x', 'security_groups': [None]}}),
                ('port.update.end', None), ('port', {'port': ROW})):
            self.assertFalse(notifications.parse(message(event, payload)),
                             (event, payload))

    def test_other_messages_are_refused(self):
        for body in ('', '{', '[]', '7', '{}', '{"oslo.message": "{}"}',
                     '{"oslo.message": "["}', b'\xff\xfe'):
            self.assertRaises(ValueError, notifications.parse, body)


class TestNotified(base.TestCase):

    def setUp(self):
        super().setUp()
        self.woken = []
        self.notified = notified.Notified(lambda: self.woken.append(1))
        self.notified.watch({
            MEMBER: findings.Finding(port()),
            OTHER: findings.Finding(None, findings.Obstacle.NO_PORT, 'none')},
            [SET])

    def notify(self, ports=(), addresses=(), groups=()):
        del self.woken[:]
        self.notified.handle(notifications.Hint(
            frozenset(ports), frozenset(addresses), frozenset(groups)))
        return *self.notified.take(), len(self.woken)

    def test_members_that_a_message_concerns_are_taken(self):
        self.assertEqual(({MEMBER}, set(), 1), self.notify(ports=[PORT]))
        self.assertEqual(({MEMBER}, set(), 1), self.notify(groups=[GROUP]))
        # A new port, with its address in another spelling.
        self.assertEqual(({OTHER}, set(), 1), self.notify(
            ports=['new'], addresses=['2001:DB8:0::1']))

    def test_remote_groups_of_rules_are_taken(self):
        self.assertEqual((set(), {SET}, 1), self.notify(
            ports=['client'], addresses=['10.0.0.99'], groups=[SET, 'x']))

    def test_messages_about_others_wake_no_thread(self):
        # Another port in a member's group does not change the member.
        self.assertEqual((set(), set(), 0), self.notify(
            ports=['x'], addresses=['10.0.0.12'], groups=[GROUP, 'y']))

    def test_nothing_is_wanted_without_members(self):
        self.assertTrue(self.notified.is_wanted)
        self.notified.ignore()
        self.assertFalse(self.notified.is_wanted)
        self.assertEqual((set(), set(), 0), self.notify(
            ports=[PORT], groups=[GROUP, SET]))

    def test_removed_members_are_not_taken(self):
        self.notified.handle(notifications.Hint(frozenset([PORT])))
        self.notified.watch({}, [])
        self.assertEqual((set(), set()), self.notified.take())


class TestOptions(base.TestCase):

    def listener(self, url):
        return notifications.Listener(
            self.load(f'[zero_touch]\nnotification_transport_url = {url}\n'),
            print, bool)

    def test_unusable_urls_are_refused_by_name(self):
        for url in ('kafka://u:p@broker:9092/', 'fake://', 'rabbit://',
                    'rabbit://u:p@broker:x/'):
            error = self.assertRaises(option_values.ConfigurationError,
                                      self.listener, url)
            self.assertIn('notification_transport_url', str(error))

    def test_brokers_and_special_characters_are_converted(self):
        arguments = self.listener(
            'rabbit://u:p%2F@one:5671,u:p%2F@[2001:db8::1]/neu%2Ftron'
        )._arguments
        self.assertEqual('amqp://u:p%2F@one:5671/neu%2Ftron;'
                         'amqp://u:p%2F@[2001:db8::1]:5672/neu%2Ftron',
                         arguments['hostname'])
        self.assertFalse(arguments['ssl'])

# SPDX-License-Identifier: Apache-2.0
"""Look-ups of members in Neutron, with the reasons if there is no tap."""

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import obstacles
from octavia_xdp_provider.controller.neutron_ports import options
from octavia_xdp_provider.controller.neutron_ports import search
from octavia_xdp_provider.controller.neutron_ports import security
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller.ports import ADDRESS
from octavia_xdp_provider.tests.unit.controller.ports import Neutron
from octavia_xdp_provider.tests.unit.controller.ports import port
from octavia_xdp_provider.tests.unit.controller.ports import red
from octavia_xdp_provider.tests.unit.controller.ports import router_port
from octavia_xdp_provider.tests.unit.controller.ports import rule

OBSTACLE = findings.Obstacle


class TestOptions(base.TestCase):

    USER = ('auth_type = password\nauth_url = http://127.0.0.1:5000/v3\n'
            'username = u\npassword = p\n')

    def test_credentials_may_come_from_another_section(self):
        for text in (f'[neutron]\n{self.USER}',
                     f'[octavia]\n{self.USER}[neutron]\n'
                     'auth_section = octavia\n'):
            session = options.load_session(self.load(text))
            self.assertEqual('http://127.0.0.1:5000/v3',
                             session.auth.auth_url)

    def test_missing_or_invalid_options_are_named(self):
        for text, word in (('', '[neutron] auth_type'),
                           ('[neutron]\nauth_section = octavia\n',
                            '[octavia] auth_type'),
                           (f'[neutron]\n{self.USER}timeout = x\n',
                            'timeout')):
            error = self.assertRaises(
                option_values.ConfigurationError, options.load_session,
                self.load(text))
            self.assertIn(word, str(error))


class TestSearch(base.TestCase):

    def find(self, neutron, *wanted):
        results = search.find(neutron, wanted)
        self.assertEqual(set(wanted), set(results))
        return results[wanted[0]]

    def test_port_has_all_that_a_hypervisor_needs(self):
        finding = self.find(Neutron([port(), router_port()], [rule()]), red())
        self.assertEqual(findings.Finding(findings.Port(
            id='port', project_id='red', host='hv1', migrating_to=None,
            status='ACTIVE', vif_type='ovs', vnic_type='normal',
            mac='fa:16:3e:00:00:11', address=ADDRESS, subnet_id='sub-red',
            network_id='net-red', mtu=1442, gateway_mac='fa:16:3e:00:00:01',
            security_enabled=True, security_group_ids=('group-red',),
            rules=(findings.Rule(4, 6, (8080, 8080), None, None, None),),
            revision=7)), finding)

    def test_same_address_of_two_tenants_finds_their_own_ports(self):
        neutron = Neutron([port(), router_port(),
                           port('other', 'blue'), router_port('blue')])
        blue = findings.Wanted('blue', ADDRESS, 'sub-blue')
        results = search.find(neutron, [red(), blue])
        self.assertEqual(['port', 'other'], [
            results[member].port.id for member in (red(), blue)])
        # Also without subnets, by the ports' projects.
        results = search.find(neutron, [
            red(subnet_id=None), findings.Wanted('blue', ADDRESS)])
        self.assertEqual({'port', 'other'}, {
            finding.port.id for finding in results.values()})

    def test_member_without_subnet_and_two_ports_is_ambiguous(self):
        second = port('second')
        second['fixed_ips'] = [{'subnet_id': 'sub-2', 'ip_address': ADDRESS}]
        neutron = Neutron([port(), second, router_port()])
        finding = self.find(neutron, red(subnet_id=None))
        self.assertEqual((None, OBSTACLE.AMBIGUOUS),
                         (finding.port, finding.obstacle))
        self.assertIn('subnet_id', finding.reason)
        # With a subnet, it is not.
        self.assertEqual('port', self.find(neutron, red()).port.id)

    def test_address_in_another_subnet_does_not_match(self):
        member_port = port()
        member_port['fixed_ips'].append({'subnet_id': 'sub-2',
                                         'ip_address': '10.9.0.9'})
        elsewhere = red(address='10.9.0.9')
        results = search.find(Neutron([member_port, router_port()]),
                              [red(), elsewhere])
        self.assertEqual(OBSTACLE.NO_PORT, results[elsewhere].obstacle)
        self.assertIsNone(results[red()].obstacle)

    def test_port_on_foreign_network_is_not_reached(self):
        neutron = Neutron([port('theirs', 'blue'), router_port('blue')])
        member = red(subnet_id='sub-blue')
        for address in (ADDRESS, '10.0.0.99'):
            # The reason does not reveal whether a port has the address.
            finding = self.find(neutron, red(subnet_id='sub-blue',
                                             address=address))
            self.assertEqual((None, OBSTACLE.FOREIGN),
                             (finding.port, finding.obstacle))
            self.assertIn('sub-blue', finding.reason)
        for projects in (['red'], ['green', 'red'], ['*']):
            neutron.shared_with = {'net-blue': projects}
            self.assertEqual('theirs', self.find(neutron, member).port.id)
        # Look up again after the share was removed.
        neutron.shared_with = {'net-blue': ['green']}
        self.assertEqual(OBSTACLE.FOREIGN,
                         self.find(neutron, member).obstacle)

    def test_own_port_on_any_network_is_found(self):
        neutron = Neutron([port(network_id='net-blue'), router_port()])
        self.assertIsNone(self.find(neutron, red()).obstacle)

    def test_other_spelling_of_an_address_matches(self):
        member_port = port(fixed_ips=[{'subnet_id': 'sub-red',
                                       'ip_address': '2001:db8::b'}])
        finding = self.find(Neutron([member_port, router_port()]),
                            red(address='2001:0db8:0::000b'))
        self.assertEqual('2001:db8::b', finding.port.address)

    def test_address_without_a_port_is_named(self):
        finding = self.find(Neutron([router_port()]), red())
        self.assertEqual(OBSTACLE.NO_PORT, finding.obstacle)
        self.assertIn('sub-red', finding.reason)
        self.assertIn(ADDRESS, finding.reason)

    def test_address_in_allowed_pairs_only_is_not_found(self):
        """Neutron does not know which port uses such an address."""
        member_port = port(fixed_ips=[{'subnet_id': 'sub-red',
                                       'ip_address': '10.0.0.20'}],
                           allowed_address_pairs=[{'ip_address': ADDRESS}])
        finding = self.find(Neutron([member_port, router_port()]), red())
        self.assertEqual((None, OBSTACLE.NO_PORT),
                         (finding.port, finding.obstacle))
        self.assertIn('allowed address pairs', finding.reason)

    def test_gateway_outside_neutron_is_an_obstacle(self):
        finding = self.find(Neutron([port()]), red())
        self.assertEqual((OBSTACLE.NO_GATEWAY, None),
                         (finding.obstacle, finding.port.gateway_mac))
        neutron = Neutron([port()])
        neutron.gateway = None
        self.assertIn('has no gateway', self.find(neutron, red()).reason)

    def test_disabled_port_or_network_is_an_obstacle(self):
        for off, disabled in ((port(admin_state_up=False), ()),
                              # Takes precedence over obstacles that may pass.
                              (port(admin_state_up=False, **{
                                  'binding:host_id': ''}), ()),
                              (port(), ['net-red'])):
            neutron = Neutron([off, router_port()])
            neutron.disabled |= set(disabled)
            finding = self.find(neutron, red())
            self.assertEqual((None, OBSTACLE.DISABLED),
                             (finding.port, finding.obstacle))
            self.assertIn('disabled', finding.reason)

    def test_disabled_router_is_no_gateway(self):
        for off, disabled, word in (
                ({'admin_state_up': False}, (), 'gateway is disabled'),
                ({}, ['of-red'], 'router of-red is disabled')):
            neutron = Neutron([port(), {**router_port(), **off}])
            neutron.disabled |= set(disabled)
            finding = self.find(neutron, red())
            self.assertEqual((OBSTACLE.NO_GATEWAY, None),
                             (finding.obstacle, finding.port.gateway_mac))
            self.assertIn(word, finding.reason)

    def test_rules_do_not_apply_without_port_security(self):
        finding = self.find(Neutron([
            port(port_security_enabled=False), router_port()], [rule()]),
            red())
        self.assertEqual((False, (), ()), (
            finding.port.security_enabled, finding.port.security_group_ids,
            finding.port.rules))

    def test_unreadable_groups_are_an_obstacle(self):
        for kind, key in (('groups', 'group-red'), ('networks', 'net-red'),
                          ('subnets', 'sub-red'), ('routers', 'of-red')):
            finding = self.find(Neutron(
                [port(), router_port()], **{kind: [key]}), red())
            self.assertEqual((None, OBSTACLE.NOT_VISIBLE),
                             (finding.port, finding.obstacle))
            self.assertIn(key, finding.reason)

    def test_migrating_port_has_both_hosts(self):
        finding = self.find(Neutron([port(**{'binding:profile': {
            'migrating_to': 'hv2'}}), router_port()]), red())
        self.assertEqual(('hv1', 'hv2'), (finding.port.host,
                                          finding.port.migrating_to))

    def test_many_members_take_as_few_calls_as_one(self):
        neutron = Neutron([port(), router_port()])
        self.find(neutron, red())
        once = neutron.calls
        neutron = Neutron([port(), router_port()])
        self.find(neutron, *(red(address=f'10.0.0.{i}')
                             for i in range(2, 100)))
        self.assertEqual(once, neutron.calls)


class TestObstacles(base.TestCase):

    def test_each_kind_of_port_without_tap_is_named(self):
        for wanted, fields in (
                (OBSTACLE.UNBOUND, {'binding:host_id': '',
                                    'binding:vif_type': 'unbound'}),
                (OBSTACLE.BINDING_FAILED, {
                    'binding:vif_type': 'binding_failed'}),
                (OBSTACLE.VHOST_USER, {'binding:vif_type': 'vhostuser'}),
                (OBSTACLE.UNKNOWN_VIF, {'binding:vif_type': 'agilio_ovs'}),
                (OBSTACLE.DIRECT, {'binding:vnic_type': 'direct',
                                   'binding:vif_type': 'hw_veb'}),
                (OBSTACLE.DIRECT, {'binding:vnic_type': 'macvtap'}),
                (OBSTACLE.DIRECT, {'binding:vnic_type': 'vdpa'}),
                (OBSTACLE.OFFLOADED, {
                    'binding:vnic_type': 'direct',
                    'binding:profile': {'capabilities': ['switchdev']}}),
                (OBSTACLE.BARE_METAL, {'binding:vnic_type': 'baremetal',
                                       'binding:vif_type': 'other'}),
                (OBSTACLE.BARE_METAL, {'device_owner': 'baremetal:none'}),
                (OBSTACLE.TRUNK_SUBPORT, {'device_owner': 'trunk:subport'}),
                (OBSTACLE.NOT_A_VM, {'device_owner': 'network:dhcp'})):
            obstacle = obstacles.of_port(port(**fields))
            self.assertIsNotNone(obstacle, fields)
            self.assertEqual(wanted, obstacle[0])
            self.assertTrue(obstacle[1])

    def test_vm_with_a_tap_has_no_obstacle(self):
        for vif in 'ovs', 'bridge', 'tap':
            self.assertIsNone(obstacles.of_port(
                port(**{'binding:vif_type': vif})))
        self.assertIsNone(obstacles.of_port(port(
            **{'binding:profile': None})))


class TestRules(base.TestCase):

    def test_ingress_rules_of_all_groups_are_distinct(self):
        groups = [{'security_group_rules': [
            rule(), rule(direction='egress', protocol='udp')]},
            {'security_group_rules': [rule(), rule(
                protocol=None, port_range_min=None, port_range_max=None,
                remote_group_id='g')]}]
        self.assertEqual(
            {findings.Rule(4, 6, (8080, 8080), None, None, None),
             findings.Rule(4, None, None, None, 'g', None)},
            set(security.rules(groups)))
        self.assertEqual(2, len(security.rules(groups)))
        self.assertEqual(security.rules(groups),
                         security.rules(reversed(groups)))

    def protocol(self, name, **more):
        return [allowed.protocol for allowed in security.rules(
            [{'security_group_rules': [rule(protocol=name, **more)]}])]

    def test_protocols_become_numbers(self):
        for name, number in (('udp', 17), ('132', 132), ('sctp', 132),
                             ('icmp', 1), (None, None), ('any', None)):
            self.assertEqual([number], self.protocol(name), name)
        self.assertEqual([58], self.protocol('icmp', ethertype='IPv6'))

    def test_rule_of_an_unused_protocol_is_omitted(self):
        self.assertEqual([], self.protocol('vrrp'))

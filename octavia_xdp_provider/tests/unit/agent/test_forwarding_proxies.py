# SPDX-License-Identifier: Apache-2.0
"""Plans of listeners that proxy nodes serve, in the view of LB nodes."""

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.api import nat as nat_rules
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

HEALTH_PORT = 65535
PROXIES = ('198.18.20.1', '198.18.20.2')
FLAVORS = (
    {}, {'encapsulation': 'dscp', 'dscp': 3},
    {'encapsulation': 'srv6', 'srv6_function': 7},
    {'member_port': 'rewrite'}, {'member_port': 'rewrite_on_member'},
    {'forwarding': 'nat'}, {'forwarding': 'proxy'},
    {'zero_touch': 'required'})


def document(flavor=(), ports=(80,), **listener):
    """Return the view of LB nodes; each port has a listener of HTTP."""
    wanted = base.document(flavor=dict(flavor))
    pool = wanted['pools']['pool']
    pool['protocol'] = 'HTTP'
    http = {**wanted['listeners'].pop('listener'), 'protocol': 'HTTP',
            **listener}
    wanted['listeners'] = {f'l{port}': {**http, 'protocol_port': port}
                           for port in ports}
    wanted['proxies'] = {
        'nodes': {f'proxy{place}': {'addresses': [address], 'weight': 1}
                  for place, address in enumerate(PROXIES)},
        'listeners': list(wanted['listeners'])}
    return spec.for_node(views.for_lb_node(wanted))


def plan(view, mark=lambda _vip, name, *_way: int(name.address[-1]), **more):
    return planning.plan(view, mark=mark, share=lambda _document: nat.Share(
        7, 1000, {'TCP': 7440, 'UDP': 300}), **more)


class TestProxies(base.TestCase):

    def test_flavor_does_not_say_how_proxies_are_reached(self):
        tunnels = {address: datapath.Tunnel(
            address, datapath.Encapsulation.GUE, 0, False, True)
            for address in PROXIES}
        for flavor in FLAVORS:
            with self.subTest(flavor):
                service, = plan(document(flavor)).services.values()
                self.assertEqual(
                    datapath.Settings(
                        flags=datapath.ServiceFlag.SECOND_CHANCE,
                        encapsulation=datapath.Encapsulation.GUE),
                    service.settings)
                self.assertEqual(
                    [(address, 0, tunnels[address]) for address in PROXIES],
                    [(member.address, member.port, member.tunnel)
                     for member in service.members])

    def test_limits_of_clients_stay_on_lb_nodes(self):
        view = document({'new_flow_rate': 10, 'new_flow_burst': 20},
                        allowed_cidrs=['192.0.2.0/24'], connection_limit=5)
        service, = plan(view).services.values()
        self.assertEqual(
            (10, 20, ('192.0.2.0/24',), 0),
            (service.settings.new_flow_rate, service.settings.new_flow_burst,
             service.settings.allowed, service.settings.connection_limit))

    def test_each_proxy_is_probed_once_for_all_listeners(self):
        for flavor in FLAVORS:
            with self.subTest(flavor):
                made = plan(document(flavor, (80, 443)))
                self.assertEqual(2, len(made.services))
                self.assertEqual(
                    {(base.VIP, HEALTH_PORT, mark, 'http') for mark in (1, 2)},
                    {(check.address, check.port, check.mark, check.type)
                     for check in made.checks})
                self.assertEqual(2, len({check.key for check in made.checks}))
                self.assertEqual([], made.conditions)

    def test_probes_without_the_tunnel_are_refused(self):
        error = self.assertRaises(
            errors.Refused, plan, document(), lambda *_way: None)
        self.assertIn('probe_through_datapath', error.instead)

    def test_other_listeners_with_nat_stay_as_they_are(self):
        view = document({'forwarding': 'nat'})
        other = base.document(flavor={'forwarding': 'nat'})
        view['listeners']['l81'] = {**other['listeners']['listener'],
                                    'protocol_port': 81}
        view['pools']['pool'] = other['pools']['pool']
        made = plan(view)
        services = {key.port: service for key, service
                    in made.services.items()}
        self.assertEqual(
            {80: datapath.ServiceFlag.SECOND_CHANCE,
             81: datapath.ServiceFlag.NAT},
            {port: service.settings.flags for port, service
             in services.items()})
        self.assertEqual({0, 80}, {
            member.port for service in services.values()
            for member in service.members})
        # Probes of the others follow the kernel's routes.
        self.assertEqual({1, 2, None}, {check.mark for check in made.checks})
        self.assertEqual({80}, {key.port for key in made.named})
        self.assertEqual(nat_rules.project(view), made.nat_project)


class TestPortsInTunnels(base.TestCase):
    """Monitors of another port of a member at the end of a tunnel."""

    def plan(self, tunnel, flavor=()):
        wanted = base.document(flavor=dict(flavor))
        members = wanted['pools']['pool']['members']
        del members['m2']
        members['m1'].update(monitor_port=8081, tunnel={
            'address': '198.18.20.1', **tunnel})
        return planning.plan(wanted, mark=lambda *_way: 7)

    def test_tunnel_without_a_key_leads_to_all_ports(self):
        check, = self.plan({'encapsulation': 'gue'}).checks
        self.assertEqual((base.VIP, 8081, 7, 'http'),
                         (check.address, check.port, check.mark, check.type))

    def test_other_ends_know_the_listeners_port_alone(self):
        for tunnel, flavor in (
                ({'encapsulation': 'geneve', 'key': 7}, {}),
                ({'encapsulation': 'gue'}, {'member_port': 'rewrite'}),
                ({'encapsulation': 'gue'},
                 {'member_port': 'rewrite_on_member'})):
            error = self.assertRaises(errors.Refused, self.plan, tunnel,
                                      flavor)
            self.assertIn('cannot be reached', error.why)

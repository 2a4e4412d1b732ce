# SPDX-License-Identifier: Apache-2.0
"""Plans of load balancers with forwarding nat."""

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning
from octavia_xdp_provider.tests.unit.agent.nat_node import document


class TestForwarding(base.TestCase):

    idle_times = {'TCP': 7440, 'UDP': 300}

    def plan(self, wanted, **more):
        return planning.plan(wanted, share=lambda _document: (
            nat.Share(7, 1000, self.idle_times)), **more)

    def test_connection_limit_becomes_a_setting(self):
        wanted = document()
        wanted['listeners']['listener']['connection_limit'] = 10
        for key, flag in ((None, datapath.ServiceFlag(0)),
                          ('connection_limit_reset',
                           datapath.ServiceFlag.RESET)):
            if key:
                wanted['flavor'][key] = True
            ((_, service),) = self.plan(wanted).services.items()
            self.assertEqual(datapath.Settings(
                flags=datapath.ServiceFlag.NAT | flag, nat_group=7,
                nat_flows=1000, connection_limit=10,
                idle_timeout_s=7440), service.settings)

    def test_members_have_their_ports_and_no_encapsulation(self):
        wanted = document()
        members = wanted['pools']['pool']['members']
        members['m1']['protocol_port'] = 8080
        members['m2']['address'] = '2001:db8:18::12'
        plan = self.plan(wanted)
        self.assertEqual('p', plan.nat_project)
        ((key, service),) = plan.services.items()
        self.assertEqual(datapath.Settings(
            flags=datapath.ServiceFlag.NAT, nat_group=7, nat_flows=1000,
            idle_timeout_s=7440), service.settings)
        self.assertEqual({('198.18.10.11', 8080), ('2001:db8:18::12', 80)},
                         {(member.address, member.port)
                          for member in service.members})
        self.assertEqual({4, 6}, service.families(key.address))
        members['m1']['address'] = '2001:db8:18::11'
        (service,) = self.plan(wanted).services.values()
        # Answers go to clients of the VIP's family.
        self.assertEqual({4, 6}, service.families(key.address))

    def test_probes_go_as_packets_do(self):
        def mark(*_target):
            raise AssertionError('inside an encapsulation')

        plan = self.plan(document(), mark=mark)
        self.assertEqual(
            {('198.18.10.11', None), ('198.18.10.12', None)},
            {(check.address, check.mark) for check in plan.checks})

    def test_idle_timeout_follows_the_listeners_timeout(self):
        def idle(protocol='TCP', client_ms=50000, **flavor):
            wanted = document()
            wanted['flavor'] = {'forwarding': 'nat', **flavor}
            wanted['listeners']['listener'].update(
                protocol=protocol, timeout_client_data=client_ms)
            wanted['pools']['pool'].update(protocol=protocol,
                                          healthmonitor=None)
            (service,) = self.plan(wanted).services.values()
            return service.settings.idle_timeout_s

        for seconds, arguments in (
                (7440, {}), (7440, {'client_ms': 3_600_000}),
                (8000, {'client_ms': 8_000_000}),
                (16000, {'client_ms': 2 ** 31 - 1}),
                (300, {'protocol': 'UDP'}),
                (301, {'protocol': 'UDP', 'client_ms': 300_001}),
                (60, {'idle_timeout': 60}),
                (350, {'protocol': 'UDP', 'idle_timeout': 350})):
            self.assertEqual(seconds, idle(**arguments), arguments)
        self.idle_times = {'TCP': 120, 'UDP': 40}
        for seconds, arguments in (
                (120, {}), (121, {'client_ms': 121_000}),
                (50, {'protocol': 'UDP'}),
                (40, {'protocol': 'UDP', 'client_ms': 40_000}),
                (7440, {'idle_timeout': 7440})):
            self.assertEqual(seconds, idle(**arguments), arguments)

    def test_node_without_pools_refuses_nat(self):
        error = self.assertRaises(errors.Refused, planning.plan, document())
        self.assertEqual('flavor', error.option)

# SPDX-License-Identifier: Apache-2.0
"""A node with pools for NAT."""

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

POOL, POOL_V6 = '198.51.100.0/30', '2001:db8:0:1::/126'


def document(**more):
    return base.document(flavor={'forwarding': 'nat'}, **more)


class NatTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.dataplane = reconciling.PoolsDatapath()
        self.own = set()

    def make(self, pools=POOL, **more):
        conf = self.load('\n'.join((
            '[nat]', f'pools = {pools}',
            *(f'{name} = {value}' for name, value in more.items()))))
        return nat.Nat(conf, self.dataplane, lambda: self.own)


def peers(**addresses):
    return [{'host': host, 'address': address}
            for host, address in addresses.items()]

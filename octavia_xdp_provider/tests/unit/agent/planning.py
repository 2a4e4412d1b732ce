# SPDX-License-Identifier: Apache-2.0
"""A document, and the plan that a node makes of it."""

import ipaddress

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base

POLICY = address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),
     ipaddress.ip_network('2001:db8:113::/64')),
    (ipaddress.ip_network('127.0.0.0/8'),),
    frozenset({'198.18.1.6'}))
KEY = datapath.Key(base.VIP, 'TCP', 80)


def plan(document, policy=POLICY, *arguments, **context):
    return forwarding.plan(
        document, forwarding.Context(policy, *arguments, **context))


class PlanTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.document = base.document()
        self.pool = self.document['pools']['pool']
        self.members = self.pool['members']

    def plan(self, *arguments):
        return plan(self.document, POLICY, *arguments)

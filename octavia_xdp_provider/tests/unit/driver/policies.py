# SPDX-License-Identifier: Apache-2.0
"""The API policy of the driver's tests."""

import ipaddress

from octavia_xdp_provider.api import policy
from octavia_xdp_provider.contracts import address_policy

POLICY = policy.ApiPolicy(address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),
     ipaddress.ip_network('2001:db8:100::/64')),
    (ipaddress.ip_network('127.0.0.0/8'),
     ipaddress.ip_network('169.254.0.0/16'),
     ipaddress.ip_network('fe80::/10'))))

# SPDX-License-Identifier: Apache-2.0
"""Options of octavia-tempest-plugin for a DevStack with the provider."""

from lab import paths
from lab.control import octavia
from lab.tempest import configuration


def options():
    """Return [(section, option, value)]."""
    sections = configuration.provider_options({})
    sections['load_balancer'].update(
        {'vip_subnet_cidr': paths.VIP_NETWORK,
         'vip_ipv6_subnet_cidr': paths.VIP_NETWORK_V6,
         'enabled_provider_drivers':
             f'{octavia.XDP}:{octavia.DESCRIPTIONS[octavia.XDP]}'})
    return [(section, name, str(value))
            for section, values in sections.items()
            for name, value in values.items()]

# SPDX-License-Identifier: Apache-2.0
"""``.. exabgp-example::`` shows the configuration that we render."""

import dataclasses
import pathlib

from docutils import nodes
from docutils.parsers.rst import Directive

from octavia_xdp_provider.agent.bgp import exabgp_config

COMMAND = ['/usr/local/bin/octavia-xdp-announcer',
           '--file', '/run/octavia-xdp/announcements.json',
           '--network', '203.0.113.0/24']
ROUTER = exabgp_config.Neighbour(
    local_address='198.51.100.11', local_as=65010,
    peer_address='198.51.100.1', peer_as=65000)
ROUTER_V6 = exabgp_config.Neighbour(
    local_address='2001:db8:1::11', local_as=65010,
    peer_address='2001:db8:1::1', peer_as=65000,
    families=('ipv6 unicast',))
ROUTER_BOTH = dataclasses.replace(
    ROUTER, families=('ipv4 unicast', 'ipv6 unicast'))
UNIT = (pathlib.Path(__file__).resolve().parents[2] / 'deploy' / 'systemd'
        / 'octavia-xdp-exabgp.service')


class ExaBgpExample(Directive):
    """exabgp.conf, or with the argument "environment" its variables.

    With "ipv6" or "both" the neighbour for IPv6 routes in a session of
    their own, or for all routes in the IPv4 session.
    """

    optional_arguments = 1

    def run(self):
        if self.arguments == ['environment']:
            lines = [f'{key}={value}' for key, value in sorted(
                exabgp_config.ENVIRONMENT.items())]
            unit = UNIT.read_text().splitlines()
            for line in lines:
                if f'Environment={line}' not in unit:
                    raise self.error(f'{UNIT.name} does not set {line}')
            text = '\n'.join(lines)
        elif self.arguments:
            router = {'ipv6': ROUTER_V6, 'both': ROUTER_BOTH}.get(
                self.arguments[0])
            if router is None:
                raise self.error(f'unknown argument {self.arguments[0]}')
            text = exabgp_config.render(ROUTER.local_address, [router],
                                        COMMAND)
            text = text[text.index('neighbor '):]
        else:
            text = exabgp_config.render(ROUTER.local_address, [ROUTER],
                                        COMMAND)
        return [nodes.literal_block(text, text, language='none')]


def setup(app):
    app.add_directive('exabgp-example', ExaBgpExample)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}

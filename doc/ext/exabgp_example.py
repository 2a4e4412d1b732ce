# SPDX-License-Identifier: Apache-2.0
"""``.. exabgp-example::`` shows the configuration that we render."""

import pathlib

from docutils import nodes
from docutils.parsers.rst import Directive

from octavia_xdp_provider.agent import exabgp_config

COMMAND = ['/usr/local/bin/octavia-xdp-announcer',
           '--file', '/run/octavia-xdp/announcements.json',
           '--network', '203.0.113.0/24']
ROUTER = exabgp_config.Neighbour(
    local_address='198.51.100.11', local_as=65010,
    peer_address='198.51.100.1', peer_as=65000)
UNIT = (pathlib.Path(__file__).resolve().parents[2] / 'deploy' / 'systemd'
        / 'octavia-xdp-exabgp.service')


class ExaBgpExample(Directive):
    """exabgp.conf, or with the argument "environment" its variables."""

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
        else:
            text = exabgp_config.render(ROUTER.local_address, [ROUTER],
                                        COMMAND)
        return [nodes.literal_block(text, text, language='none')]


def setup(app):
    app.add_directive('exabgp-example', ExaBgpExample)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}

# SPDX-License-Identifier: Apache-2.0
"""The shipped units of an LB node and a controller under a real systemd.

There is no broker: the agent works from its cache.
"""

import json

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.functional.support import private_systemd
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

HERE = private_systemd.HERE
for_all, program = private_systemd.for_all, private_systemd.program
HEALTH_CHECKER = private_systemd.CHECKOUT / 'build/bin/octavia-xdp-hc'
USER = private_systemd.unprivileged_user()
# For units with a user of their own; root's may lie below /root.
PYTHON = private_systemd.python_for_all()
AGENT_PORT, HANDLER_PORT, CONTROLLER_PORT = 9105, 9106, 9104
RUN = '/run/octavia-xdp'
HC, BGP = 'octavia-xdp-hc', 'octavia-xdp-bgp'
# Longer than a busy machine holds a loop up.
HANG_S = 15
CONFIGURATION = f'''[DEFAULT]
host = lb1
transport_url = rabbit://nobody:nothing@127.0.0.1:1/none
hang_timeout = {HANG_S}
[vip]
allowed_networks = 203.0.113.0/24
[members]
allowed_networks = 198.18.0.0/15
[agent]
uplinks = {private_systemd.UPLINK}
listen = 127.0.0.1:{AGENT_PORT}
result_handler_metrics = 127.0.0.1:{HANDLER_PORT}
[datapath]
library = {private_systemd.library()}
services_max = 16
'''
CONTROLLER = f'''[DEFAULT]
transport_url = fake://
[database]
connection = sqlite:////var/lib/octavia-xdp/octavia-xdp.sqlite
[nodes]
transport_url = rabbit://nobody:nothing@127.0.0.1:1/{{vhost}}
[octavia]
auth_type = none
endpoint = http://127.0.0.1:1
[controller]
listen = 127.0.0.1:{CONTROLLER_PORT}
'''
EXABGP = f'''process octavia-xdp {{
    run {PYTHON} {for_all(program('octavia-xdp-announcer'))} \
--file {RUN}/announcements.json --network 203.0.113.0/24;
    encoder json;
    respawn true;
}}
neighbor {private_systemd.GATEWAY} {{
    router-id {private_systemd.ADDRESS};
    local-address {private_systemd.ADDRESS};
    local-as 65010;
    peer-as 65000;
    adj-rib-out true;
    family {{ ipv4 unicast; }}
    api {{ processes [ octavia-xdp ]; neighbor-changes; }}
}}
'''


def commands():
    """Unit → its command here and what else is different."""
    def python(name, configuration):
        return (f'{program(name)} --config-file '
                f'{HERE}/{configuration}')
    return {
        'agent': (python('octavia-xdp-agent', 'node.conf'),
                  f'WatchdogSec={HANG_S}'),
        'result-handler': (python('octavia-xdp-result-handler', 'node.conf'),
                           f'WatchdogSec={HANG_S}'),
        'hc': (f'{for_all(HEALTH_CHECKER)} run --checks {RUN}/checks --queue '
               f'{RUN}/queue --socket {RUN}/hc.sock', ''),
        'exabgp': (f'{PYTHON} {for_all(program("exabgp"))} '
                   f'{HERE}/exabgp.conf',
                   f'Environment=PYTHONPATH={private_systemd.modules()}'),
        'controller': (
            python('octavia-xdp-controller', 'controller.conf'),
            f'User={USER}\nGroup=nogroup\nExecStartPre='
            f'{python("octavia-xdp-manage", "controller.conf")} '
            'database upgrade')}


class UnitsTestCase(waiting.Waiting, base.TestCase):
    """``INSTEAD``: unit → what it runs in place of its program."""

    SOON, LOOK = private_systemd.SOON_S, 0.1
    INSTEAD: dict[str, str] = {}

    def setUp(self):
        super().setUp()
        if not HEALTH_CHECKER.exists():
            self.skipTest('the health checker is not built (tools/setup)')
        if PYTHON is None:
            self.skipTest('no Python of this version that any user can run')
        self.systemd = private_systemd.PrivateSystemd(self, {
            unit: (self.INSTEAD.get(unit, command), more)
            for unit, (command, more) in commands().items()})
        for name, text in (('node.conf', CONFIGURATION),
                           ('controller.conf', CONTROLLER),
                           ('exabgp.conf', EXABGP)):
            path = self.systemd.directory / name
            path.write_text(text)
        # Somebody else than root reads it.
        self.systemd.directory.chmod(0o755)

    def cache(self):
        """A load balancer that the controller sent before the broker went.
        """
        document = base.document()
        document['pools']['pool']['healthmonitor'] = None
        directory = self.systemd.directory / 'cached'
        directory.mkdir()
        (directory / 'lb.json').write_text(json.dumps({
            'generation': 5,
            'document': spec.for_node(spec.complete(document))}))
        (directory / 'as_of').write_text('5')
        self.systemd.run('mkdir', '-p', f'{RUN}/wanted')
        self.systemd.run('cp', '-r', f'{HERE}/cached/.', f'{RUN}/wanted')

    def metrics(self, port=AGENT_PORT):
        return self.systemd.get(f'http://127.0.0.1:{port}/metrics')[1]

    def health(self, port=AGENT_PORT):
        return self.systemd.get(f'http://127.0.0.1:{port}/healthcheck')

    def has_service(self):
        return 'octavia_xdp_agent_services 1.0\n' in self.metrics()

    def restarts(self, unit):
        return int(self.systemd.shown(unit, 'NRestarts'))

    def kernel_has_program(self):
        return 'prog/xdp' in self.systemd.run(
            'ip', '-d', 'link', 'show', private_systemd.UPLINK).stdout

# SPDX-License-Identifier: Apache-2.0
"""The shipped unit of a hypervisor's agent under a real systemd.

There is neither a broker nor Open vSwitch: the agent works from its cache and
finds the tap by its name.
"""

import json
import os

from octavia_xdp_provider.host import taps
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import private_systemd
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

HERE, UNIT, PORT = private_systemd.HERE, 'host-agent', 9107
RUN = '/run/octavia-xdp-host'
CONFIGURATION = f'''[DEFAULT]
host = compute1
transport_url = rabbit://nobody:nothing@127.0.0.1:1/none
[host_agent]
underlay_interfaces = {private_systemd.UPLINK}
library = {hypervisor.LIBRARY}
listen = 127.0.0.1:{PORT}
ports_max = 16
flows_max = 4096
'''


class TestHostUnit(waiting.Waiting, base.TestCase):

    SOON, LOOK = private_systemd.SOON_S, 0.1

    def setUp(self):
        super().setUp()
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            self.skipTest('tcx is not in this kernel')
        self.systemd = private_systemd.PrivateSystemd(self, {UNIT: (
            f'{private_systemd.program("octavia-xdp-host-agent")} '
            f'--config-file {HERE}/host.conf', '')})
        (self.systemd.directory / 'host.conf').write_text(CONFIGURATION)
        cached = self.systemd.directory / 'cached'
        cached.mkdir()
        (cached / f'{fakes.PORT}.json').write_text(json.dumps({
            'generation': 5, 'document': fakes.port(fakes.entry(5))}))
        (cached / 'as_of').write_text('5')
        self.systemd.run('mkdir', '-p', RUN)
        self.systemd.run('cp', '-r', f'{HERE}/cached', f'{RUN}/wanted')

    def is_shown(self, name, value):
        text = self.systemd.get(f'http://127.0.0.1:{PORT}/metrics')[1]
        return f'octavia_xdp_host_{name} {value:.1f}\n' in text

    def test_rights_are_enough_and_a_restart_keeps_all(self):
        self.systemd.run('ip', 'link', 'add', taps.name_of(fakes.PORT),
                         'type', 'veth', 'peer', 'name', 'vm0')
        self.systemd.systemctl('start', UNIT)
        self.wait('tap', lambda: self.is_shown('taps', 1))
        self.wait('entry', lambda: self.is_shown('entries', 1))
        self.assertTrue(self.is_shown('failed', 0))
        pins = self.pins()
        self.assertEqual(3, len(pins), pins)
        self.systemd.systemctl('stop', UNIT)
        self.assertEqual('success', self.systemd.shown(UNIT, 'Result'))
        self.assertEqual(pins, self.pins())
        self.systemd.systemctl('start', UNIT)
        self.wait('tap', lambda: self.is_shown('taps', 1))
        self.assertEqual(pins, self.pins())
        self.assertNotIn('Operation not permitted', self.systemd.log(UNIT))

    def pins(self):
        return self.systemd.run(
            'ls', '/sys/fs/bpf/octavia-xdp-host/links').stdout.split()

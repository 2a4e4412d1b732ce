# SPDX-License-Identifier: Apache-2.0
"""The reach of an attacker who has taken over a process without root.

Under the shipped unit, as its user, beside the node's other processes.
"""

import json

from octavia_xdp_provider.tests.functional.support import node_units
from octavia_xdp_provider.tests.functional.support import private_systemd
from octavia_xdp_provider.tests.functional.support import thief
from octavia_xdp_provider.tests.support import form

THIEF = f'{node_units.PYTHON} {private_systemd.for_all(thief.__file__)}'


class StolenCase(node_units.UnitsTestCase):

    UNIT: str

    def found(self):
        self.cache()
        others = [unit for unit in ('agent', 'result-handler', 'hc', 'exabgp')
                  if unit != self.UNIT]
        for unit in others:
            self.systemd.systemctl('start', unit)
        self.wait('service', self.has_service)
        self.systemd.systemctl('start', self.UNIT)
        line = self.wait('what he found', self.shown)
        for unit in others:
            self.assertEqual(('active', 0), (
                self.systemd.shown(unit, 'ActiveState'),
                self.restarts(unit)), unit)
        return json.loads(line.removeprefix(thief.SHOWN))

    def check(self, written, connected, done):
        """It reaches just these, in the run directory, and systemd's own
        sockets, which are everybody's; keys are its session's own."""
        findings = self.found()
        self.assertEqual(
            [node_units.RUN + name for name in written],
            [path for path in findings['written']
             # Paths of the machine that runs the tests.
             if not path.startswith(private_systemd.OPEN)])
        self.assertEqual(
            [node_units.RUN + name for name in connected],
            [path for path in findings['connected']
             if not path.startswith('/run/systemd/')])
        self.assertEqual(([], done), (findings['signalled'], findings['done']))

    def shown(self):
        return next((line for line in self.systemd.log(self.UNIT).splitlines()
                     if line.startswith(thief.SHOWN)), None)


@form.in_long_form
class TestStolenChecker(StolenCase):

    UNIT = 'hc'
    INSTEAD = {'hc': THIEF}

    def test_what_it_reaches(self):
        self.check(written=['', '/queue'], connected=[
            '/agent.wakeup', '/handler.wakeup', '/uplinks.wakeup'],
            done=['keys', 'raw IPv4'])


@form.in_long_form
class TestStolenExabgp(StolenCase):

    UNIT = 'exabgp'
    INSTEAD = {'exabgp': THIEF}

    def test_what_it_reaches(self):
        self.check(written=[''], connected=[], done=['keys'])

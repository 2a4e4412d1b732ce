# SPDX-License-Identifier: Apache-2.0
"""The shipped units under a real systemd: rights, watchdog, stop, reload."""

import json

from octavia_xdp_provider.tests.functional.support import node_units
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

HC, BGP, RUN = node_units.HC, node_units.BGP, node_units.RUN


class TestNodeUnits(node_units.UnitsTestCase):

    def test_the_rights_of_the_units_are_enough_also_without_a_broker(self):
        self.cache()
        for unit in ('agent', 'result-handler', 'hc', 'exabgp'):
            self.systemd.systemctl('start', unit)
        self.wait('service', self.has_service)
        self.assertTrue(self.kernel_has_program())
        self.assertIn(
            'octavia_xdp_agent_listener_packets_total{listener="listener",'
            f'load_balancer="lb",project="p",vip="{base.VIP}"}} 0.0\n',
            self.metrics())
        self.wait('announcer', lambda: (
            'octavia_xdp_agent_announcer_up 1.0\n' in self.metrics()))
        # The handler answers under its unit, and has opened the tables.
        self.wait('tick', lambda: 'octavia_xdp_open_slots 0.0\n'
                  in self.metrics(node_units.HANDLER_PORT))
        status, text = self.health(node_units.HANDLER_PORT)
        self.assertEqual((200, 'OK'),
                         (status, json.loads(text)['checks']['threads']))
        for unit in ('agent', 'result-handler', 'hc', 'exabgp'):
            self.assertEqual(('active', 0), (
                self.systemd.shown(unit, 'ActiveState'),
                self.restarts(unit)), unit)
            self.assertNotIn('Operation not permitted',
                             self.systemd.log(unit))
        self.check_users()
        # It ends at once, and the kernel goes on.
        self.systemd.systemctl('stop', 'agent')
        self.assertEqual('success', self.systemd.shown('agent', 'Result'))
        self.assertTrue(self.kernel_has_program())

    def check_users(self):
        """Each unit runs as its own user, works, and can reach no more of
        the others' files than it needs."""
        for unit, user in (('hc', HC), ('exabgp', BGP)):
            pid = self.systemd.shown(unit, 'MainPID')
            self.assertEqual(f'{user}\n', self.systemd.run(
                'ps', '-o', 'user:32=', '-p', pid).stdout)
            self.assertEqual('0', self.systemd.run(
                'awk', '/^CapEff/ { print $2 + 0 }',
                f'/proc/{pid}/status').stdout.strip())
        for user, test, names in (
                (HC, '-r', ('checks', 'checks/lb.json')),
                (HC, '-w', ('queue', 'uplinks.wakeup', 'hc.sock')),
                (BGP, '-r', ('announcements.json',)),
                (BGP, '-w', ('announced.json', 'announcer.lock'))):
            for name in names:
                self.assertTrue(self.may(user, test, name), (user, name))
        for user, test, names in (
                (HC, '-r', ('checks.secret',)),
                (HC, '-w', ('announcements.json', 'announced.json', 'checks',
                            'checks/lb.json', 'datapath.lock')),
                (BGP, '-r', ('checks', 'queue', 'checks.secret')),
                (BGP, '-w', ('announcements.json', 'uplinks.wakeup',
                             'hc.sock', 'queue'))):
            for name in names:
                self.assertFalse(self.may(user, test, name), (user, name))
        for user in (HC, BGP):
            # Nor does it replace what is another's.
            self.assertNotEqual(0, self.as_user(
                user, 'mv', f'{RUN}/announcements.json', f'{RUN}/x'))
        self.wait('snapshot', lambda: self.systemd.run(
            'stat', '-c', '%U', f'{RUN}/queue/snapshot',
            check=False).stdout == f'{HC}\n')
        # The agent asks the checker, as root without any right of root's.
        self.assertEqual(0, self.systemd.run(
            'setpriv', '--bounding-set=-all', f'--regid={HC}',
            '--clear-groups', '--', 'test', '-w', f'{RUN}/hc.sock').returncode)

    def as_user(self, user, *words):
        return self.systemd.run(
            'setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups',
            '--', *words, check=False).returncode

    def may(self, user, test, name):
        return self.as_user(user, 'test', test, f'{RUN}/{name}') == 0

    @form.in_long_form
    def test_a_worker_that_hangs_is_killed_and_started_again(self):
        self.cache()
        self.systemd.systemctl('start', 'agent')
        self.wait('service', self.has_service)
        holder = self.systemd.popen('flock', f'{RUN}/datapath.lock', 'bash',
                                    '-c', 'echo held; sleep 600')
        self.assertEqual('held\n', holder.stdout.readline())
        self.wait('failed health check', lambda: self.health()[0] == 503)
        self.assertIn('hanging', self.health()[1])
        self.wait('restart', lambda: self.restarts('agent') > 0)
        self.assertIn('Hanging: ', self.systemd.log('agent'))
        # The output of faulthandler when systemd ends the process.
        self.assertIn('Fatal Python error: Aborted',
                      self.systemd.log('agent'))
        self.systemd.run('fuser', '--kill', f'{RUN}/datapath.lock',
                         check=False)

    @form.in_long_form
    def test_reload_takes_mutable_options_and_names_the_others(self):
        self.systemd.systemctl('start', 'agent')
        path = self.systemd.directory / 'node.conf'
        path.write_text(node_units.CONFIGURATION.replace(
            f'hang_timeout = {node_units.HANG_S}', '').replace(
            'services_max = 16', 'services_max = 32') +
            '[bgp]\ndrain_med = 7\n')
        self.systemd.systemctl('reload', 'agent')
        self.wait('line', lambda: 'SIGHUP: 1 options have changed'
                  in self.systemd.log('agent'))
        self.wait('names', lambda: (
            'a restart is needed for: [DEFAULT] hang_timeout, [datapath] '
            'services_max' in self.systemd.log('agent')))
        path.write_text(node_units.CONFIGURATION
                        + '[bgp]\ndrain_communities = x\n')
        self.systemd.systemctl('reload', 'agent')
        self.wait('refusal', lambda: (
            'SIGHUP: the configuration is not taken'
            in self.systemd.log('agent')))
        self.assertEqual(0, self.restarts('agent'))


class TestControllerUnit(node_units.UnitsTestCase):

    def test_its_rights_are_enough(self):
        self.systemd.systemctl('start', 'controller')
        port = node_units.CONTROLLER_PORT
        self.wait('health', lambda: self.health(port)[0] == 200)
        checks = json.loads(self.health(port)[1])['checks']
        self.assertEqual({'threads', 'database', 'broker'}, checks.keys())
        self.wait('leader', lambda: (
            'octavia_xdp_controller_leader 1.0\n'
            in self.metrics(port)))
        self.assertIn('octavia_xdp_controller_database_up 1.0\n',
                      self.metrics(port))
        self.assertEqual(node_units.USER,
                         self.systemd.shown('controller', 'User'))
        self.systemd.run('kill', '-USR2', self.systemd.shown(
            'controller', 'MainPID'))
        self.wait('report', lambda: 'Guru Meditation'
                  in self.systemd.log('controller'))
        self.systemd.systemctl('stop', 'controller')
        self.assertEqual('success', self.systemd.shown('controller',
                                                       'Result'))

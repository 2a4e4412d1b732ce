# SPDX-License-Identifier: Apache-2.0
"""The shipped units under a real systemd: rights, watchdog, stop, reload.

There is no broker: the agent works from its cache.
"""

import json
import pathlib

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.tests.functional.support import private_systemd
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

HERE = private_systemd.HERE
for_all, program = private_systemd.for_all, private_systemd.program
HEALTH_CHECKER = pathlib.Path(__file__).parents[4] / 'build/bin/octavia-xdp-hc'
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

    SOON, LOOK = private_systemd.SOON_S, 0.1

    def setUp(self):
        super().setUp()
        if not HEALTH_CHECKER.exists():
            self.skipTest('the health checker is not built (tools/setup)')
        if PYTHON is None:
            self.skipTest('no Python of this version that any user can run')
        self.systemd = private_systemd.PrivateSystemd(self, commands())
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


class TestNodeUnits(UnitsTestCase):

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
                  in self.metrics(HANDLER_PORT))
        status, text = self.health(HANDLER_PORT)
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
        """Who has a user of its own has it, does its work as that, and
        reaches no more of the others' files than it must."""
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
        # What faulthandler writes when systemd ends it.
        self.assertIn('Fatal Python error: Aborted',
                      self.systemd.log('agent'))
        self.systemd.run('fuser', '--kill', f'{RUN}/datapath.lock',
                         check=False)

    @form.in_long_form
    def test_reload_takes_mutable_options_and_names_the_others(self):
        self.systemd.systemctl('start', 'agent')
        path = self.systemd.directory / 'node.conf'
        path.write_text(CONFIGURATION.replace(
            f'hang_timeout = {HANG_S}', '').replace(
            'services_max = 16', 'services_max = 32') +
            '[bgp]\ndrain_med = 7\n')
        self.systemd.systemctl('reload', 'agent')
        self.wait('line', lambda: 'SIGHUP: 1 options have changed'
                  in self.systemd.log('agent'))
        self.wait('names', lambda: (
            'a restart is needed for: [DEFAULT] hang_timeout, [datapath] '
            'services_max' in self.systemd.log('agent')))
        path.write_text(CONFIGURATION + '[bgp]\ndrain_communities = x\n')
        self.systemd.systemctl('reload', 'agent')
        self.wait('refusal', lambda: (
            'SIGHUP: the configuration is not taken'
            in self.systemd.log('agent')))
        self.assertEqual(0, self.restarts('agent'))


class TestControllerUnit(UnitsTestCase):

    def test_its_rights_are_enough(self):
        self.systemd.systemctl('start', 'controller')
        self.wait('health', lambda: self.health(CONTROLLER_PORT)[0] == 200)
        checks = json.loads(self.health(CONTROLLER_PORT)[1])['checks']
        self.assertEqual({'threads', 'database', 'broker'}, checks.keys())
        self.wait('leader', lambda: (
            'octavia_xdp_controller_leader 1.0\n'
            in self.metrics(CONTROLLER_PORT)))
        self.assertIn('octavia_xdp_controller_database_up 1.0\n',
                      self.metrics(CONTROLLER_PORT))
        self.assertEqual(USER, self.systemd.shown('controller', 'User'))
        self.systemd.run('kill', '-USR2', self.systemd.shown(
            'controller', 'MainPID'))
        self.wait('report', lambda: 'Guru Meditation'
                  in self.systemd.log('controller'))
        self.systemd.systemctl('stop', 'controller')
        self.assertEqual('success', self.systemd.shown('controller',
                                                       'Result'))

# SPDX-License-Identifier: Apache-2.0
"""The units of a proxy node under a real systemd, which keeps sockets."""

import json
import os
import pathlib
import sys

from lab import paths
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.functional.support import private_systemd
from octavia_xdp_provider.tests.functional.support import proxies
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

HERE = private_systemd.HERE
NAMESPACE = 'octavia-xdp-proxy'
RUN = f'/run/{NAMESPACE}'
USER = 'octavia-xdp-proxy'
UNIT, AGENT, CHECKER = 'proxy-launcher', 'proxy-agent', 'proxy-checker'
HEALTH = f'{RUN}/health'
# Prints what HAProxy says of its members.
ASK = f'''
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("{RUN}/runtime/{proxies.FIRST}/runtime.sock")
client.sendall(b"show stat -1 4 -1\\n")
print(b"".join(iter(lambda: client.recv(65536), b"")).decode())
'''
TEXT = '''
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend listener
    bind fd@${LISTENER_0}
    http-request return status 200
'''
# Connects until there is a file; prints how often, and how often in vain.
CLIENT = f'''
import os, socket
connected = refused = 0
while not os.path.exists("{HERE}/enough"):
    try:
        socket.create_connection(("{proxies.VIP}", 80), 100).close()
        connected += 1
    except ConnectionRefusedError:
        refused += 1
print(connected, refused)
'''


class UnitsCase(waiting.Waiting, base.TestCase):

    SOON, LOOK = private_systemd.SOON_S, 0.1
    LIMITS = False

    def setUp(self):
        super().setUp()
        if not os.path.exists(proxies.HAPROXY):
            self.skipTest('haproxy is not installed')
        checker = private_systemd.for_all(paths.HEALTH_CHECKER)
        self.systemd = private_systemd.PrivateSystemd(self, {
            **{unit: (
                f'{sys.executable} -m octavia_xdp_provider.cmd.{module} '
                f'--config-file {HERE}/proxy.conf',
                f'WorkingDirectory={private_systemd.CHECKOUT}')
                for unit, module in ((UNIT, 'proxy_launcher'),
                                     (AGENT, 'proxy_agent'))},
            CHECKER: (f'{checker} run --checks {HEALTH}/checks --queue '
                      f'{HEALTH}/queue --socket {HEALTH}/hc.sock', '')})
        # The agent is no root.
        self.systemd.directory.chmod(0o755)
        self.write('proxy.conf', (
            '[DEFAULT]\ntransport_url = fake://\nhost = proxy1\n'
            f'[proxy]\nlimits = {self.LIMITS}\nconnections = 100\n'))
        # The drop-in's options give the unit a mount namespace, in which
        # namespaces that it makes would stay.
        for words in (
                ('netns', 'add', NAMESPACE),
                ('link', 'add', 'proxy', 'type', 'veth', 'peer', 'name',
                 'eth0', 'netns', NAMESPACE),
                ('address', 'add', '192.0.2.1/24', 'dev', 'proxy'),
                ('link', 'set', 'proxy', 'up'),
                ('-n', NAMESPACE, 'address', 'add', '192.0.2.2/24', 'dev',
                 'eth0'),
                ('-n', NAMESPACE, 'link', 'set', 'eth0', 'up'),
                ('route', 'add', proxies.VIP, 'via', '192.0.2.2')):
            self.systemd.run('ip', *words)

    def write(self, name, text):
        path = self.systemd.directory / name
        path.write_text(text)
        return f'{HERE}/{name}'

    def want(self, text):
        """Write what is wanted inside."""
        self.systemd.run('mkdir', '-p', f'{RUN}/wanted/{proxies.FIRST}')
        for name, content in (
                ('haproxy.cfg', text),
                ('launch.json', json.dumps(proxies.launch(text)))):
            self.systemd.run('cp', self.write(name, content),
                             f'{RUN}/wanted/{proxies.FIRST}/')

    def state(self):
        done = self.systemd.run(
            'cat', f'{RUN}/state/{proxies.FIRST}.json', check=False)
        return json.loads(done.stdout) if done.stdout else {}

    def wait_running(self, but=None):
        """Wait until it serves by another process; return the state."""
        return self.wait('HAProxy', lambda: (
            (state := self.state()) and state['phase'] == 'running'
            and state['pid'] not in (None, but) and state))


class TestUnit(UnitsCase):

    def test_death_of_launcher_and_proxy_at_once_refuses_nobody(self):
        self.systemd.systemctl('start', UNIT)
        self.want(TEXT)
        state = self.wait_running()
        client = self.systemd.popen('/usr/bin/python3', '-c', CLIENT)
        for _ in range(2):
            main = self.systemd.shown(UNIT, 'MainPID')
            self.systemd.run('kill', '-KILL', main, str(state['pid']))
            state = self.wait_running(but=state['pid'])
            self.assertNotEqual(main, self.systemd.shown(UNIT, 'MainPID'))
        pathlib.Path(self.systemd.directory, 'enough').touch()
        connected, refused = map(int, client.stdout.readline().split())
        self.assertGreater(connected, 100)
        self.assertEqual(0, refused)
        # An upgrade: the unit restarts, and HAProxy goes on.
        self.systemd.systemctl('restart', UNIT)
        self.want(TEXT + '    # changed\n')
        self.wait('reload', lambda: self.state()['configuration_hash']
                  != state['configuration_hash'])
        self.assertEqual(state['pid'], self.state()['pid'])
        self.check_limits()
        # Nothing is wanted any more while nobody watches.
        self.systemd.run('sh', '-c', 'kill -KILL "$0" "$1"; rm -r "$2"',
                         self.systemd.shown(UNIT, 'MainPID'),
                         str(state['pid']), f'{RUN}/wanted/{proxies.FIRST}')
        self.wait('end', lambda: self.systemd.shown(
            UNIT, 'NFileDescriptorStore') == '0')

    def check_limits(self):
        pass


class TestAgentUnit(UnitsCase):

    def cache(self, **more):
        """Give the agent what a controller has sent it before."""
        document = {**documents.web(members={'m': documents.member()},
                                    **more),
                    'id': proxies.FIRST, 'vip_address': proxies.VIP}
        document['pools'][documents.uuid_of('webs')]['healthmonitor'] = (
            documents.monitor())
        cached = self.systemd.directory / 'cached'
        wanted.Cache(str(cached)).save(wanted.Wanted(
            1, {proxies.FIRST: (1, document)}), {proxies.FIRST})
        self.systemd.run('sh', '-ec', f'''
            mkdir -p /var/lib/{NAMESPACE}
            rm -rf /var/lib/{NAMESPACE}/wanted
            cp -r {HERE}/cached /var/lib/{NAMESPACE}/wanted
            chown -R {USER}: /var/lib/{NAMESPACE}''')

    def test_rights_of_the_agent_are_enough(self):
        self.cache()
        # In whatever order they are started.
        self.systemd.systemctl('start', AGENT)
        self.systemd.systemctl('start', UNIT)
        state = self.wait_running()
        pid = self.systemd.shown(AGENT, 'MainPID')
        self.assertEqual(f'{USER}\n', self.systemd.run(
            'ps', '-o', 'user:32=', '-p', pid).stdout)
        self.assertEqual('0', self.systemd.run(
            'awk', '/^CapEff/ { print $2 + 0 }',
            f'/proc/{pid}/status').stdout.strip())
        self.assertEqual(0, self.may('-w', f'runtime/{proxies.FIRST}'))
        for path in ('', 'state', f'state/{proxies.FIRST}.json', 'private',
                     f'private/{proxies.FIRST}'):
            self.assertNotEqual(0, self.may('-w', path), path)
        # A restart changes nothing, and a change is a reload.
        self.systemd.systemctl('stop', AGENT)
        self.cache(connection_limit=7)
        self.systemd.systemctl('start', AGENT)
        self.wait('reload', lambda: self.state()['configuration_hash']
                  != state['configuration_hash'])
        self.assertEqual(state['pid'], self.state()['pid'])
        self.assertNotIn('Permission denied', self.systemd.log(AGENT))

    def test_rights_of_the_checker_are_enough(self):
        self.cache()
        # It needs the namespace, and waits for what the agent makes.
        for unit in (UNIT, CHECKER, AGENT):
            self.systemd.systemctl('start', unit)
        self.wait_running()
        # There is no way to the member from the namespace.
        self.wait('member is down', lambda: ',MAINT,' in self.systemd.run(
            '/usr/bin/python3', '-c', ASK, check=False).stdout)
        pid = self.systemd.shown(CHECKER, 'MainPID')
        self.assertEqual(f'{USER}-hc\n', self.systemd.run(
            'ps', '-o', 'user:32=', '-p', pid).stdout)
        self.assertEqual(self.inode(f'/run/netns/{NAMESPACE}'),
                         self.inode(f'/proc/{pid}/ns/net'))
        # It shares nothing with HAProxy processes, which share nothing with
        # it.
        for path in (f'runtime/{proxies.FIRST}', 'wanted', 'secrets',
                     'health/counters', 'health/checks'):
            self.assertNotEqual(0, self.may('-w', path, f'{USER}-hc'), path)
        self.assertNotEqual(0, self.may('-x', f'runtime/{proxies.FIRST}',
                                        f'{USER}-hc'))
        for unit in (AGENT, CHECKER):
            self.assertNotIn('ermission denied', self.systemd.log(unit))

    def inode(self, path):
        return self.systemd.run('stat', '-L', '-c', '%i', path).stdout

    def may(self, test, name, user=USER):
        return self.systemd.run(
            'setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups',
            'test', test, f'{RUN}/{name}', check=False).returncode


class TestUnitLimits(TestUnit):
    """Needs controllers; see tools/on-kernel."""

    SOON = 400
    LIMITS = True

    def setUp(self):
        group = private_systemd.hierarchy()
        if group is None or not {'cpu', 'memory', 'pids'} <= set(
                (group / 'cgroup.controllers').read_text().split()):
            self.skipTest('no controllers of cgroups of version 2')
        (group / 'cgroup.subtree_control').write_text('+cpu +memory +pids')
        super().setUp()

    def check_limits(self):
        path = (f'/sys/fs/cgroup/system.slice/octavia-xdp-{UNIT}.service/'
                f'{proxies.FIRST}/memory.max')
        self.assertEqual(f'{64 << 20}\n', self.systemd.run('cat', path).stdout)

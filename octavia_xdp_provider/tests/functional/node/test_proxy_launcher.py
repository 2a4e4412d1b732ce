# SPDX-License-Identifier: Apache-2.0
"""The launcher with real HAProxy processes, namespaces and packets."""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.proxy.render import settings as render
from octavia_xdp_provider.tests.functional.support import proxies
from octavia_xdp_provider.tests.support import proxied as documents

SYS_PIDFD_GETFD = 438
FIRST, SECOND = proxies.FIRST, proxies.SECOND


class TestLauncher(proxies.ProxiesCase):

    def test_nothing_is_left_of_what_is_not_wanted(self):
        self.start_launcher()
        self.serve()
        self.serve(identity=SECOND, number=70002,
                   sockets=((proxies.OTHER_VIP, 80),))
        shutil.rmtree(self.run_directory / 'wanted' / FIRST)
        self.wait('end', lambda: not self.state())
        self.assertFalse((self.groups / FIRST).exists())
        for name in ('private', 'runtime', 'state'):
            self.assertEqual([SECOND], [path.stem for path in (
                self.run_directory / name).iterdir()])
        self.assertRaises(ConnectionRefusedError, self.get, proxies.OTHER_VIP,
                          81)
        # Its address is gone from the namespace as well.
        routes = self.ip('proxy', 'route', 'show', 'table', 'local', 'proto',
                         '188')
        self.assertEqual(f'local {proxies.OTHER_VIP} dev lo scope host \n',
                         routes)

    def test_rendered_configuration_is_served(self):
        self.start_launcher()
        self.start_member()
        document = documents.web(members={
            'm': documents.member(proxies.MEMBER)})
        settings = documents.render_settings(
            run=proxy_launch.RUN, connections=100)
        self.serve(load_balancer.render(document, settings).text,
                   sockets=render.socket_variables(document),
                   connections=load_balancer.connection_limit(document,
                                                              settings))
        self.assertEqual(200, self.get()[0])
        group = (self.run_directory / 'wanted').stat().st_gid
        for name in (proxy_launch.RUNTIME_SOCKET,
                     proxy_launch.MASTER_SOCKET.format(1)):
            made = self.run_directory / 'runtime' / FIRST / name
            self.assertTrue(made.is_socket())
            self.assertEqual((70001, group, 0o660), (
                made.stat().st_uid, made.stat().st_gid,
                made.stat().st_mode & 0o777))

    def test_process_without_rights(self):
        self.start_launcher()
        pid = self.serve()['pid']
        worker, = self.processes()['1'] - {pid}
        for number in (pid, worker):
            shown = proxies.status(number)
            self.assertEqual(('70001\t' * 4).strip(), shown['Uid'])
            self.assertEqual(('70001\t' * 4).strip(), shown['Gid'])
            self.assertEqual('', shown['Groups'])
            self.assertEqual('1', shown['NoNewPrivs'])
            for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):
                self.assertEqual(0, int(shown[name], 16), name)
            limits = pathlib.Path(f'/proc/{number}/limits').read_text()
            self.assertRegex(limits, r'Max core file size +0 +0 ')
            self.assertRegex(limits, r'Max file size +1048576 +1048576 ')
        view = pathlib.Path(f'/proc/{pid}/root')
        self.assertEqual({'own', 'dev', 'etc'}, {
            path.name for path in view.iterdir()} - {
                'usr', 'bin', 'lib', 'lib32', 'lib64'})
        self.assertEqual({'null', 'urandom'}, set(os.listdir(view / 'dev')))

    def test_each_sees_its_own_files_alone(self):
        self.start_launcher()
        self.serve()
        self.serve(identity=SECOND, number=70002,
                   sockets=((proxies.OTHER_VIP, 80),))
        private = self.run_directory / 'private'
        for number, readable in ((70001, FIRST), (70002, SECOND)):
            for identity in (FIRST, SECOND):
                done = subprocess.run(
                    ['setpriv', f'--reuid={number}', f'--regid={number}',
                     '--clear-groups', 'cat',
                     f'{identity}/1/haproxy.cfg'], cwd=private,
                    capture_output=True)
                self.assertEqual(identity == readable, not done.returncode,
                                 done.stderr)

    def test_only_own_members_are_reached(self):
        self.start_launcher()
        self.start_member()
        self.serve()
        self.serve(proxies.configuration(member=proxies.OTHER_MEMBER),
                   identity=SECOND, number=70002,
                   members=(proxies.OTHER_MEMBER,),
                   sockets=((proxies.OTHER_VIP, 80),))
        self.assertEqual(200, self.get()[0])
        self.assertEqual(200, self.get(proxies.OTHER_VIP)[0])
        wanted = {(70001, proxies.MEMBER), (70002, proxies.OTHER_MEMBER),
                  (70000 - 1, proxies.MEMBER), (70000 - 1,
                                                proxies.OTHER_MEMBER)}
        numbers = (70001, 70002, 70003, 69999)
        members = (proxies.MEMBER, proxies.OTHER_MEMBER)
        self.assertEqual(wanted, {(number, member) for number in numbers
                                  for member in members
                                  if self.connects(number, member)})
        # A member that is removed is out at once, a new one is in.
        self.serve(proxies.configuration(member=proxies.OTHER_MEMBER),
                   members=(proxies.OTHER_MEMBER,))
        self.assertEqual(200, self.get()[0])
        self.wait('removal', lambda: not self.connects(70001, proxies.MEMBER))

    def connects(self, number, member):
        code = (f'import socket; socket.create_connection(("{member}", 80), '
                '5)')
        return not subprocess.run(
            ['ip', 'netns', 'exec', self.lab.namespace('proxy'), 'setpriv',
             f'--reuid={number}', '--clear-groups', '/usr/bin/python3', '-c',
             code], stderr=subprocess.DEVNULL).returncode

    def test_no_port_can_be_taken(self):
        self.start_launcher()
        self.serve()
        code = ('import socket; s = socket.socket(); '
                f's.setsockopt(0, 15, 1); s.bind(("{proxies.OTHER_VIP}", '
                '8080))')
        done = subprocess.run(
            ['ip', 'netns', 'exec', self.lab.namespace('proxy'), 'setpriv',
             '--reuid=70001', '--clear-groups', '--bounding-set=-all',
             '/usr/bin/python3', '-c', code], capture_output=True, text=True)
        self.assertIn('PermissionError', done.stderr)

    def test_socket_that_was_shut_down_listens_again(self):
        self.start_launcher()
        self.start_member()
        pid = self.serve()['pid']
        # The damage that a stolen process can do to inherited sockets.
        process = os.pidfd_open(pid)
        taken = socket.socket(fileno=ctypes.CDLL(None).syscall(
            SYS_PIDFD_GETFD, process, 3, 0))
        self.addCleanup(os.close, process)
        with taken:
            taken.shutdown(socket.SHUT_RDWR)
        self.wait('answer', self.answers)

    def answers(self):
        try:
            return self.get()[0] == 200
        except ConnectionRefusedError:
            return False

    def test_number_of_another_is_refused(self):
        self.start_launcher()
        self.serve()
        self.want(proxies.configuration(), identity=SECOND,
                  sockets=((proxies.OTHER_VIP, 80),))
        state = self.wait_state(SECOND, phase='refused')
        self.assertIn('number 70001 is in use by load balancer',
                      state['error'])
        self.assertFalse(state['listening'])
        shutil.rmtree(self.run_directory / 'wanted' / FIRST)
        self.wait_state(SECOND, phase='running', error=None)

    def test_files_that_do_not_fit_change_nothing(self):
        self.start_launcher()
        pid = self.serve()['pid']
        wanted = self.run_directory / 'wanted' / FIRST
        (wanted / 'launch.json').write_text('{"number": 0}')
        self.wait_state(phase='refused', pid=pid)
        self.want(proxies.configuration(), number=1)
        self.assertIn('number 1 is not', self.wait('number', lambda: (
            'number 1' in self.state()['error'] and self.state()['error'])))
        (wanted / 'launch.json').unlink()
        (wanted / 'launch.json').symlink_to('/etc/shadow')
        self.assertIn('Too many levels', self.wait('link', lambda: (
            'levels' in self.state()['error'] and self.state()['error'])))
        (wanted / 'launch.json').unlink()
        self.serve()
        self.assertEqual(pid, self.state()['pid'])

    def test_second_launcher_ends(self):
        self.start_launcher()
        self.serve()
        first = self.launcher
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        self.start_launcher()
        self.assertEqual(1, self.launcher.wait(self.SOON))


class TestFailure(proxies.ProxiesCase):
    """A HAProxy that accepts its configuration, and does not stay alive."""

    SCRIPT = '''#!/bin/sh
while [ "$1" = -W ] && read -r line; do
    case "$line" in *dies*) echo "it dies" >&2; exit 3 ;; esac
done < "$5"
exec /usr/sbin/haproxy "$@"
'''

    def setUp(self):
        super().setUp()
        directory = self.run_directory / 'bin'
        directory.mkdir()
        directory.chmod(0o755)
        script = directory / 'haproxy'
        script.write_text(self.SCRIPT)
        script.chmod(0o755)
        self.haproxy = script
        self.start_launcher()
        self.start_member()

    def test_socket_is_closed(self):
        self.want(proxies.configuration('dies'))
        state = self.wait_state(phase='failed')
        self.assertEqual((False, None, 'it dies'), (
            state['listening'], state['pid'], state['error']))
        self.assertRaises(ConnectionRefusedError, self.get)
        self.serve(proxies.configuration('lives'))
        self.assertEqual((200, 'lives'), self.get())


class TestLimits(proxies.ProxiesCase):
    """Needs cgroups of version 2 with controllers; see tools/on-kernel."""

    limits = True
    # Guests may be emulated.
    SOON = 240

    def setUp(self):
        super().setUp()
        controllers = self.groups.parent / 'cgroup.controllers'
        self.has_controllers = {'cpu', 'memory', 'pids'} <= set(
            controllers.read_text().split())

    def test_without_controllers_it_does_not_start(self):
        if self.has_controllers:
            self.skipTest('the machine has them')
        self.start_launcher(wait=False)
        self.assertEqual(1, self.launcher.wait(self.SOON))
        self.assertRegex((self.lab.logs / 'launcher.log').read_text(),
                         r'\[proxy\] limits: .* has no controllers')

    def test_memory_of_one_is_not_of_others(self):
        if not self.has_controllers:
            self.skipTest('no controllers of cgroups of version 2')
        self.start_launcher()
        self.start_member()
        self.serve()
        self.serve(identity=SECOND, number=70002, cpu_weight=50,
                   sockets=((proxies.OTHER_VIP, 80),))
        group = self.groups / FIRST
        self.assertEqual(['67108864', '100', '32'], [
            (group / name).read_text().strip()
            for name in ('memory.max', 'cpu.weight', 'pids.max')])
        self.assertEqual('50', (self.groups / SECOND / 'cpu.weight'
                                ).read_text().strip())
        done = subprocess.run([
            sys.executable, '-c', 'import os\n'
            f'open("{group}/1/cgroup.procs", "w").write(str(os.getpid()))\n'
            'bytearray(256 << 20)\n'])
        self.assertEqual(-signal.SIGKILL, done.returncode)
        self.assertEqual(200, self.get(proxies.OTHER_VIP)[0])
        # All that the kernel ended along with it is there again.
        self.wait_state(phase='running', error=None)
        self.assertEqual(200, self.get()[0])
        self.serve(memory_bytes=128 << 20)
        self.wait('new limit', lambda: (
            group / 'memory.max').read_text() == '134217728\n')

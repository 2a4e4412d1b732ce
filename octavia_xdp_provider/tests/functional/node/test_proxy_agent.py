# SPDX-License-Identifier: Apache-2.0
"""The agent of a proxy node with the real launcher and a real HAProxy."""

import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

from lab import namespaces
from lab import paths
from octavia_xdp_provider.proxy.render import settings as render
from octavia_xdp_provider.tests.functional.support import bundles
from octavia_xdp_provider.tests.functional.support import proxies
from octavia_xdp_provider.tests.functional.support import proxy_agent
from octavia_xdp_provider.tests.support import proxied as documents

FIRST, SECOND = proxies.FIRST, proxies.SECOND


def document(identity=FIRST, vip=proxies.VIP, policies=(),
             member=proxies.MEMBER, **more):
    made = documents.web(policies, members={'m': documents.member(member)},
                         **more)
    return {**made, 'id': identity, 'vip_address': vip}


def tagged(text):
    """Policies by which requests are answered with a redirect to this."""
    return {'to': documents.policy(
        'REDIRECT_TO_URL', {'all': documents.rule(value='/')},
        redirect_url=f'http://example.com/{text}')}


class TestProxyAgent(proxies.ProxiesCase):

    def setUp(self):
        super().setUp()
        # Uids that no other test uses meanwhile.
        first = 1_000_000 + 16 * os.getpid()
        self.options = f'number_min = {first}\nnumber_max = {first + 15}\n'
        self.control = pathlib.Path(tempfile.mkdtemp(
            prefix='octavia-xdp-control-'))
        self.addCleanup(shutil.rmtree, self.control)
        self.as_of, self.generations = 0, {}
        self.agent = None
        self.addCleanup(self.kill_agent)
        self.start_launcher()
        self.start_member()

    def start_agent(self):
        path = self.control / 'agent.conf'
        path.write_text(
            '[DEFAULT]\ntransport_url = fake://\nhost = proxy1\n'
            f'[proxy]\nrun_directory = {self.run_directory}\n'
            f'state_directory = {self.control}/state\n'
            f'haproxy = {self.haproxy}\nreport_interval = 1\n'
            'connections = 100\nmemory = 64\nstop_after = 30\n'
            f'{self.options}')
        with open(self.lab.logs / 'agent.log', 'ab') as log:
            self.agent = subprocess.Popen(
                [sys.executable, proxy_agent.__file__, str(self.control),
                 '--config-file', str(path)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

    def kill_agent(self, number=signal.SIGKILL):
        if self.agent is not None:
            self.agent.send_signal(number)
            self.agent.wait()
        self.agent = None

    def give(self, *wanted):
        """Have the controller want these documents."""
        self.as_of += 1
        entries = []
        for document in wanted:
            known = self.generations.get(document['id'])
            if known is None or known[1] != document:
                known = self.generations[document['id']] = self.as_of, document
            entries.append({'id': document['id'], 'generation': known[0],
                            'document': document})
        ids = {entry['id'] for entry in entries}
        removed = sorted(self.generations.keys() - ids)
        for identity in removed:
            del self.generations[identity]
        new = self.control / 'wanted.new'
        new.write_text(json.dumps({
            'as_of': self.as_of, 'entries': entries, 'removed': removed}))
        new.rename(self.control / 'wanted.json')

    def reported(self):
        path = self.control / 'reported.json'
        return json.loads(path.read_text()) if path.exists() else {}

    def held(self, identity=FIRST):
        return self.reported().get('held', {}).get(identity)

    def wait_done(self, identity=FIRST):
        """Wait until the newest document is reported; return its error."""
        generation, _ = self.generations[identity]

        def is_done():
            held = self.held(identity)
            return held and held['generation'] == generation and held
        return self.wait(f'{identity} done', is_done)['error']

    def serve(self, *wanted):
        self.give(*wanted)
        for document in wanted:
            self.assertIsNone(self.wait_done(document['id']))

    def location(self):
        """Return where a request is redirected to."""
        with namespaces.inside(self.lab, 'client'):
            connection = socket.create_connection((proxies.VIP, 80), 20)
        with connection:
            connection.sendall(b'GET / HTTP/1.0\r\n\r\n')
            answer = b''.join(iter(lambda: connection.recv(4096), b''))
        lines = dict(line.lower().split(b': ', 1) for line
                     in answer.split(b'\r\n') if b': ' in line)
        return lines[b'location'].decode().rpartition('/')[2]

    def files(self, identity=FIRST):
        """Return the launch file, and what shows whether files changed."""
        directory = self.run_directory / 'wanted' / identity
        return (json.loads((directory / 'launch.json').read_text()),
                {path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
                 for path in directory.iterdir()})

    def test_document_is_served_changed_and_removed(self):
        self.start_agent()
        self.serve(document())
        self.assertEqual((200, None), self.get())
        state = self.state()
        launch, _ = self.files()
        self.assertEqual([{'address': proxies.MEMBER, 'port': 80}],
                         launch['members'])
        # Another one does not concern it, and gets another number.
        other = document(SECOND, proxies.OTHER_VIP)
        self.serve(document(), other)
        self.assertEqual((200, None), self.get(proxies.OTHER_VIP))
        self.assertEqual(state, self.state())
        self.assertNotEqual(launch['number'],
                            self.files(SECOND)[0]['number'])
        self.serve(document(policies=tagged('changed')), other)
        self.assertEqual('changed', self.location())
        self.assertEqual(state['pid'], self.state()['pid'])
        self.give(other)
        self.wait('end', lambda: self.held() is None)
        self.assertEqual({}, self.state())
        self.assertRaises(ConnectionRefusedError, self.get,
                          proxies.OTHER_VIP, 81)
        self.assertEqual((200, None), self.get(proxies.OTHER_VIP))
        self.assertEqual([f'{SECOND}.json'], [
            path.name for path in (
                self.control / 'state' / 'load-balancers').iterdir()])

    def test_what_haproxy_refuses_is_reported_and_the_old_goes_on(self):
        self.start_agent()
        self.serve(document())
        pid = self.state()['pid']
        bundle = documents.bundle('bundle')
        secrets = self.control / 'secrets' / FIRST
        secrets.mkdir(parents=True)
        for name in (f'{bundle}.pem', 'ticket-keys'):
            (secrets / name).write_text('no certificate')
        refused = document(protocol='TERMINATED_HTTPS',
                           default_tls_bundle=bundle)
        self.give(refused)
        self.assertIn('[ALERT]', self.wait_done())
        self.assertEqual((200, None), self.get())
        self.assertEqual(pid, self.state()['pid'])
        # A document that the agent itself refuses.
        self.give(document(protocol='TERMINATED_HTTPS'))
        self.assertIn('default_tls_container_ref', self.wait_done())
        self.assertEqual((200, None), self.get())
        self.serve(document(policies=tagged('good')))
        self.assertEqual('good', self.location())

    def test_certificate_that_is_late_is_served(self):
        bundle = documents.bundle('bundle')
        self.start_agent()
        self.serve(document())
        self.give(document(protocol='TERMINATED_HTTPS',
                           default_tls_bundle=bundle))
        generation, _ = self.generations[FIRST]
        self.wait('fetch', lambda: self.reported()['as_of'] >= generation)
        # What is served goes on until the certificate is here.
        self.assertEqual((200, None), self.get())
        self.assertEqual(1, self.held()['generation'])
        new = self.control / 'new'
        new.mkdir()
        (new / f'{bundle}.pem').write_text(bundles.make('www.example.com'))
        (new / render.TICKET_KEYS).write_bytes(b'\n'.join(
            base64.b64encode(os.urandom(48)) for _ in range(3)) + b'\n')
        (self.control / 'secrets').mkdir()
        new.rename(self.control / 'secrets' / FIRST)
        self.assertIsNone(self.wait_done())
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with namespaces.inside(self.lab, 'client'):
            connection = socket.create_connection((proxies.VIP, 80), 20)
        with context.wrap_socket(connection,
                                 server_hostname='www.example.com') as secure:
            secure.sendall(b'GET / HTTP/1.0\r\n\r\n')
            self.assertIn(b' 200 ', secure.recv(99))

    def test_nothing_changes_when_the_agent_is_killed(self):
        self.start_agent()
        self.serve(document(), document(SECOND, proxies.OTHER_VIP))
        before = self.files(), self.files(SECOND), self.state()
        process = self.reported()['process']
        self.kill_agent()
        # It has missed a change, and that the other one is gone.
        self.give(document(SECOND, proxies.OTHER_VIP,
                           policies=tagged('missed')))
        (self.control / 'reported.json').unlink()
        (self.run_directory / 'wanted' / f'.{FIRST}').mkdir()
        self.start_agent()
        self.wait('end', lambda: not self.state())
        self.assertIsNone(self.wait_done(SECOND))
        self.assertNotEqual(process, self.reported()['process'])
        self.assertEqual([SECOND], [path.name for path in (
            self.run_directory / 'wanted').iterdir()])
        self.assertEqual(before[1][0]['number'],
                         self.files(SECOND)[0]['number'])
        before = self.files(SECOND), self.state(SECOND)
        self.kill_agent()
        (self.control / 'reported.json').unlink()
        self.start_agent()
        self.wait_done(SECOND)
        self.assertEqual(before, (self.files(SECOND), self.state(SECOND)))

    def test_launcher_that_does_not_run_is_reported(self):
        self.start_agent()
        self.serve(document())
        self.kill_launcher()
        self.wait('report', lambda: 'octavia-xdp-proxy-launcher' in str(
            self.reported()['state']['problems']))
        # HAProxy goes on, and so what is reported of load balancers.
        self.assertIsNone(self.wait_done())
        self.give(document(policies=tagged('later')))
        self.start_launcher()
        self.assertIsNone(self.wait_done())
        self.assertEqual('later', self.location())
        self.wait('report', lambda: not self.reported()['state']['problems'])

    def test_sockets_are_those_of_the_document(self):
        self.start_agent()
        self.serve(document())
        launch, _ = self.files()
        self.assertEqual(
            render.socket_variables(document()),
            {item['name']: (item['address'], item['port'])
             for item in launch['sockets']})

    def start_checker(self):
        health = self.run_directory / 'health'
        with open(self.lab.logs / 'checker.log', 'ab') as log:
            checker = subprocess.Popen(
                ['ip', 'netns', 'exec', self.lab.namespace('proxy'),
                 str(paths.HEALTH_CHECKER), 'run', '--checks',
                 health / 'checks', '--queue', health / 'queue', '--socket',
                 health / 'hc.sock'], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        self.addCleanup(checker.wait)
        self.addCleanup(checker.terminate)

    def test_member_that_fails_is_out_and_reported(self):
        if not paths.HEALTH_CHECKER.exists():
            self.skipTest(f'{paths.HEALTH_CHECKER} is not built')
        self.start_agent()
        wanted = document()
        pool = wanted['pools'][documents.uuid_of('webs')]
        pool['members'][documents.uuid_of('n')] = documents.member(
            proxies.OTHER_MEMBER)
        pool['healthmonitor'] = documents.monitor(type='HTTP')
        self.serve(wanted)
        self.start_checker()
        self.wait_members(m='up', n='up')
        # Nothing answers for it any more, not even that it is not there.
        self.ip('member', 'addr', 'del', f'{proxies.OTHER_MEMBER}/24', 'dev',
                'eth0')
        self.wait_members(m='up', n='down')
        for _ in range(4):
            self.assertEqual(200, self.get()[0])
        # A new process begins with that.
        self.serve({**wanted, 'additional_vips': [proxies.OTHER_VIP]})
        for _ in range(4):
            self.assertEqual(200, self.get(proxies.OTHER_VIP)[0])
        self.ip('member', 'addr', 'add', f'{proxies.OTHER_MEMBER}/24', 'dev',
                'eth0')
        self.wait_members(m='up', n='up')
        listener = documents.uuid_of('web')
        self.wait('statistics', lambda: self.reported()['counters'].get(
            FIRST, {}).get(listener, {}).get('flows') == 8)
        self.assertEqual(2, self.reported()['state']['health_checker'][
            'checks'])

    def wait_members(self, **names):
        expected = {documents.uuid_of(name): state
                    for name, state in names.items()}
        self.wait(f'{names}', lambda: self.held()['members'] == expected)

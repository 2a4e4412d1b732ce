# SPDX-License-Identifier: Apache-2.0
"""The agent of a hypervisor as a process, with the real datapath and a real
database of Open vSwitch, while stock servers in VMs answer clients."""

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

from lab import namespaces
from lab.ovn import packages
from octavia_xdp_provider.cmd import host as host_command
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import forked
from octavia_xdp_provider.tests.functional.support import host_agent
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import kernel_ovn
from octavia_xdp_provider.tests.support import form

UNIT = pathlib.Path(__file__).parents[4] / (
    'deploy/systemd/octavia-xdp-host-agent.service')
# Seconds that something may take, on however busy a machine.
LONG_S = 120
COMMON = {'networks': ['10.0.0.0/24', '2001:db8::/48'], 'peers': []}


class AgentTestCase(hypervisor.Hypervisor):

    SOON, LOOK = LONG_S, 0.1

    def setUp(self):
        super().setUp()
        packages.provide(None)
        self.place = kernel_ovn.Place(self)
        self.directory = self.place.directory
        self.as_of, self.generations = 0, {}
        self.process = None
        self.vm = hypervisor.VirtualMachine(0, self)
        self.start_database()
        self.config = self.directory / 'agent.conf'
        self.config.write_text(f'''
[DEFAULT]
transport_url = fake://
host = hv1
[host_agent]
sid_prefix = {hypervisor.SID}/96
ovsdb = unix:{self.directory}/db.sock
run_directory = {self.directory}/run
library = {hypervisor.LIBRARY}
pin_directory = {self.folder}
fetch_interval = 1
ports_max = 8
entries_max = 64
flows_max = 4096
''')
        self.addCleanup(datapath.Datapath.remove, self.folder,
                        str(hypervisor.LIBRARY))
        self.addCleanup(self.end, signal.SIGTERM)

    # Open vSwitch's database

    def start_database(self):
        self.place.database('db', 'vswitch.ovsschema')

    def vsctl(self, *words):
        self.place.run('ovs-vsctl', f'--db=unix:{self.directory}/db.sock',
                       '--no-wait', '--timeout=60', *words)

    def plug(self, vm):
        """Plug the port as os-vif does with hybrid plugging."""
        self.vsctl('--may-exist', 'add-br', 'br-int', '--', '--may-exist',
                   'add-port', 'br-int', f'qvo{vm.port[:11]}', '--', 'set',
                   'Interface', f'qvo{vm.port[:11]}',
                   f'external_ids:iface-id={vm.port}')

    # Wanted state, and reports

    def want(self, *documents, removed=(), refused=None):
        """(kind, document)…"""
        self.as_of += 1
        known = dict(self.generations)
        entries = []
        for kind, document in documents:
            before = known.get(document['id'])
            generation = (before[1] if before and before[0] == document
                          else self.as_of)
            known[document['id']] = document, generation
            entries.append({'id': document['id'], 'kind': kind,
                            'generation': generation, 'document': document})
        self.generations = known
        path = self.directory / 'wanted.json'
        new = path.with_suffix('.new')
        new.write_text(json.dumps({
            'as_of': self.as_of, 'entries': entries,
            'removed': list(removed), 'common': COMMON,
            'refused': refused}))
        new.rename(path)

    def port(self, vm, entries=None, rules=None):
        own = [{
            'key': entry.key, 'load_balancer_id': 'lb',
            'listener_id': 'listener', 'member_id': 'member',
            'vip': entry.vip, 'vip_port': entry.vip_port,
            'address': entry.fixed, 'port': entry.port,
            'protocol': types.PROTOCOLS[entry.protocol],
            'gateway_mac': entry.gateway_mac}
            for entry in vm.entries((fabric.VIP, fabric.VIP6))]
        for entry in own:
            protocol = types.PROTOCOL_NAMES[entry['protocol']]
            self.keys[entry['vip'], protocol] = entry['key']
        return 'port', {
            'version': 1, 'id': vm.port, 'mac': hypervisor.VM_MAC,
            'mtu': 1442, 'open': False,
            'rules': [{'ip_version': version, 'protocol': 6, 'ports': None,
                       'remote_network': None, 'address_set': None}
                      for version in (4, 6)] if rules is None else rules,
            'entries': own if entries is None else entries}

    def reported(self, vm):
        """generation, ifindex, error; None before a report of this agent."""
        with contextlib.suppress(FileNotFoundError):
            report = json.loads(
                (self.directory / 'reported.json').read_bytes())
            if report['process'] == self.process.pid:
                held = report['held'].get(vm.port)
                return held and (held['ifindex'], held['error'])
        return None

    def wait_for(self, condition):
        self.wait(lambda: f'end; the agent said: {self.said()}', condition)

    def wait_reported(self, vm, ifindex):
        self.wait_for(lambda: self.reported(vm) == (ifindex, None))

    def wait_served(self, vm):
        self.wait_reported(vm, vm.ifindex)

    def said(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / 'log').read_text()[-6000:]
        return ''

    # The process

    @staticmethod
    def as_the_unit():
        """Words that run a command with the capabilities of the unit."""
        names = re.search('^CapabilityBoundingSet=(.*)$', UNIT.read_text(),
                          re.MULTILINE)[1].lower().split()
        kept = ','.join(['-all', *(f'+{name.removeprefix("cap_")}'
                                   for name in names)])
        return ['setpriv', '--bounding-set', kept, '--no-new-privs', '--']

    def start(self):
        with open(self.directory / 'log', 'a') as log:
            self.process = subprocess.Popen(
                ['nsenter', f'--net=/run/netns/{self.member}',
                 *self.as_the_unit(),
                 sys.executable, '-W', 'ignore', host_agent.__file__,
                 str(self.directory), '--config-file', str(self.config)],
                stdout=log, stderr=log)

    def end(self, number):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LONG_S)
            self.process = None

    def command(self, *words, status=0):
        done = forked.run(
            host_command.main, ['--config-file', str(self.config), *words],
            LONG_S, namespaces.entered(self.member).__enter__)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def served(self):
        """An agent with a port, and a server that has been asked once."""
        self.plug(self.vm)
        self.want(self.port(self.vm))
        self.start()
        self.wait_served(self.vm)
        return self.server(self.vm, 4)


class TestAgent(AgentTestCase):

    def test_port_is_served_and_goes_without_a_trace(self):
        server = self.served()
        for self.sid in (False, True):
            self.exchange(*self.connect(server, 4))
        shown = json.loads(self.command('show', 'entries', '-f', 'json'))
        self.assertEqual(set(self.keys.values()),
                         {row['key'] for row in shown})
        self.assertIn(self.vm.tap, self.command('show', 'ports'))
        self.assertIn('all is as wanted', self.command('verify'))
        # an entry alone, with its flows
        kind, document = self.port(self.vm)
        kept = [entry for entry in document['entries']
                if entry['vip'] != fabric.VIP]
        self.want((kind, {**document, 'entries': kept}))
        self.wait_for(lambda: {row['key'] for row in json.loads(
            self.command('show', 'entries', '-f', 'json'))} == {
                entry['key'] for entry in kept})
        self.assertEqual([], json.loads(
            self.command('show', 'flows', '-f', 'json')))
        # the port
        self.want(removed=[self.vm.port])
        self.wait_for(lambda: json.loads(
            self.command('show', 'ports', '-f', 'json')) == [])
        self.wait_for(lambda: os.listdir(f'{self.folder}/links') == [
            f'nic-{self.nic}'])

    def test_killed_and_started_during_traffic(self):
        server = self.served()
        client, accepted = self.connect(server, 4)
        for _ in range(2):
            self.exchange(client, accepted)
            self.end(signal.SIGKILL)
            self.exchange(client, accepted)
            self.exchange(*self.connect(server, 4))
            # no controller answers after this start
            (self.directory / 'wanted.json').unlink(missing_ok=True)
            self.start()
            self.wait_for(lambda: 'serves.' in self.said())
            self.exchange(client, accepted)
            self.assertIn('all is as wanted', self.command('verify'))
        flows = json.loads(self.command('show', 'flows', '-f', 'json'))
        self.assertIn('confirmed', {flow['state'] for flow in flows})
        self.end(signal.SIGTERM)
        self.exchange(client, accepted)

    @form.in_long_form
    def test_tables_of_another_layout_forward_until_they_are_removed(self):
        server = self.served()
        client, accepted = self.connect(server, 4)
        self.exchange(client, accepted)
        self.end(signal.SIGTERM)
        self.change_layout(1)
        self.start()
        self.assertNotEqual(0, self.process.wait(LONG_S))
        self.process = None
        self.assertRegex(self.said(), r'has layout \d+, this library has \d+')
        # All that is there goes on, and belongs to the release before.
        self.exchange(client, accepted)
        self.exchange(*self.connect(server, 4))
        self.change_layout(-1)
        self.start()
        self.wait_served(self.vm)
        self.exchange(client, accepted)
        self.end(signal.SIGTERM)
        self.change_layout(1)
        # The guide's procedure: with one listener, an idle connection lives.
        shutil.rmtree(self.folder)
        self.start()
        self.wait_served(self.vm)
        self.exchange(client, accepted)
        self.exchange(*self.connect(server, 4))
        self.assertIn('all is as wanted', self.command('verify'))

    def change_layout(self, by):
        library = ctypes.CDLL('libbpf.so.1', use_errno=True)
        descriptor = library.bpf_obj_get(
            f'{self.folder}/maps/settings'.encode())
        self.assertGreaterEqual(descriptor, 0)
        with mmap.mmap(descriptor, mmap.PAGESIZE) as settings:
            layout, = struct.unpack_from('=I', settings)
            struct.pack_into('=I', settings, 0, layout + by)
        os.close(descriptor)

    def test_tap_that_goes_and_comes_again(self):
        server = self.served()
        client, accepted = self.connect(server, 4)
        self.exchange(client, accepted)
        before = self.vm.ifindex
        server.close()
        self.vm.plug_out()
        self.wait_reported(self.vm, None)
        self.assertEqual([f'nic-{self.nic}'],
                         os.listdir(f'{self.folder}/links'))
        self.vm.plug_in()
        self.assertNotEqual(before, self.vm.ifindex)
        self.wait_served(self.vm)
        self.exchange(*self.connect(self.server(self.vm, 4), 4))

    @form.in_long_form
    def test_open_vswitch_restarts(self):
        server = self.served()
        client, accepted = self.connect(server, 4)
        kernel_ovn.end(self.place.server)
        (self.directory / 'db.sock').unlink(missing_ok=True)
        self.exchange(client, accepted)
        self.start_database()
        other = hypervisor.VirtualMachine(1, self)
        self.plug(other)
        self.want(self.port(other, entries=[]), self.port(self.vm))
        self.wait_served(other)
        self.exchange(client, accepted)

    @form.in_long_form
    def test_difference_and_trace_are_shown(self):
        server = self.served()
        self.end(signal.SIGTERM)
        host = datapath.Datapath(self.folder, str(hypervisor.LIBRARY))
        self.addCleanup(host.close)
        host.delete_entry(self.keys[fabric.VIP, 'udp'])
        with namespaces.entered(self.member):
            host.detach(types.Hook.TAP_OUT, self.vm.ifindex)
        faults = json.loads(self.command('verify', '-f', 'json', status=1))
        texts = ' '.join(fault['fault'] for fault in faults['faults'])
        self.assertIn(f'key {self.keys[fabric.VIP, "udp"]} is wanted', texts)
        self.assertIn('no program tap_out', texts)
        self.start()
        self.wait_for(lambda: self.reported(self.vm) is not None)
        self.command('verify')
        trace = subprocess.Popen(
            ['nsenter', f'--net=/run/netns/{self.member}', sys.executable,
             '-W', 'ignore', '-m', 'octavia_xdp_provider.cmd.host',
             '--config-file', str(self.config), 'trace', self.vm.port,
             '-f', 'json', '--count', '3'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn('tracing', trace.stderr.readline())
        self.exchange(*self.connect(server, 4))
        out, _ = trace.communicate(timeout=LONG_S)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({'in', 'out'}, {line['outcome'] for line in lines})
        self.assertIn(f'{hypervisor.FIXED}:{hypervisor.LOCAL}',
                      lines[0]['packet'])

    def test_refused_by_name(self):
        self.vsctl('add-br', 'br-int', '--', 'add-port', 'br-int', 'vhu0',
                   '--', 'set', 'Interface', 'vhu0',
                   'type=dpdkvhostuserclient',
                   f'external_ids:iface-id={self.vm.port}')
        self.want(self.port(self.vm))
        self.start()
        self.wait_for(lambda: self.reported(self.vm) not in (
            None, (None, None)))
        self.assertIn('vhost-user', self.reported(self.vm)[1])

    @form.in_long_form
    def test_controller_that_refuses_the_host_takes_nothing_away(self):
        server = self.served()
        self.want(refused='it is not registered')
        self.wait_for(lambda: 'it is not registered' in self.said())
        self.exchange(*self.connect(server, 4))

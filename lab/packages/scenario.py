# SPDX-License-Identifier: Apache-2.0
"""Install, upgrade and remove the packages in the root, with checks."""

import os
import shutil

from lab import demo_steps
from lab.packages import build
from lab.packages import root
from lab.packages import settings

SYSCTL = f'/{build.CONFFILE}'
OPERATOR = '# The operator was here.'
MEMBER = 'octavia-xdp-member@eth2'
# Units that an upgrade restarts, and units that it does not touch.
RESTARTED = ('octavia-xdp-controller', 'octavia-xdp-agent',
             'octavia-xdp-result-handler', 'octavia-xdp-hc',
             'octavia-xdp-host-agent')
UNTOUCHED = ('octavia-xdp-exabgp', MEMBER)
UNITS = RESTARTED + UNTOUCHED
GET = ('import sys, urllib.request; '
       'print(urllib.request.urlopen(sys.argv[1]).read().decode())')
_expect = demo_steps.expect


class Scenario:
    """Steps, each of which returns a line of detail."""

    def __init__(self, systemd):
        self.systemd = systemd
        self.run = systemd.run
        # Programs at interfaces, and processes that an upgrade must keep.
        self._programs = self._processes = None

    def install(self):
        """Install the older version by apt, without a network."""
        old = build.older()
        self.systemd.start()
        self._apt_install('old', old)
        version = self._versions()
        _expect(version == {build.OLD_VERSION}, f'installed: {version}')
        for unit in UNITS:
            state = self.systemd.shown(unit, 'ActiveState')
            _expect(state == 'inactive', f'{unit} is {state} before it is '
                    'configured')
        for name in ('octavia-xdp-manage', 'octavia-xdp-status',
                     'octavia-xdp-ctl', 'octavia-xdp-host', 'octavia-xdp-hc',
                     'octavia-xdp-member', 'octavia-xdp-drops',
                     'octavia-xdp-proxy-agent',
                     'octavia-xdp-proxy-launcher'):
            self.run(name, '--help')
        return f'{build.OLD_VERSION}, nothing runs'

    def _apt_install(self, name, packages):
        folder = root.ROOT / name
        folder.mkdir()
        for path in packages:
            shutil.copy(path, folder)
        self.run('apt-get', 'install', '--yes', '--option',
                 'Dpkg::Options::=--force-confold',
                 *(f'/{name}/{path.name}' for path in packages))
        shutil.rmtree(folder)

    def _versions(self):
        return set(self.run('dpkg-query', '--show', '--showformat',
                            '${Version}\n', *build.NAMES).split())

    def start(self):
        """Follow the installation guide, and check that all units run."""
        self.run('useradd', '--system', 'octavia')
        self.run('install', '--directory', '--owner=octavia',
                 '/var/lib/octavia-xdp')
        for name, text in settings.FILES.items():
            path = root.ROOT / settings.DIRECTORY.lstrip('/') / name
            path.write_text(text)
            path.chmod(0o644)
        self.run('chown', 'octavia-xdp-bgp:',
                 f'{settings.DIRECTORY}/exabgp.conf')
        self.run('chmod', '0400', f'{settings.DIRECTORY}/exabgp.conf')
        self.run('setpriv', '--reuid=octavia', '--regid=octavia',
                 '--clear-groups', '--', 'octavia-xdp-manage', 'database',
                 'upgrade')
        self.systemd.add_devices()
        root.wait('device of eth2', lambda: self.systemd.shown(
            'sys-subsystem-net-devices-eth2.device', 'ActiveState')
            == 'active')
        for unit in UNITS:
            try:
                self.run('systemctl', 'start', unit)
            except demo_steps.StepFailed as error:
                raise demo_steps.StepFailed(
                    f'{error}\n{self.systemd.log(unit)}') from error
        self._check_units()
        self._programs = self._attached()
        self._processes = self._pids(UNTOUCHED)
        return f'{len(UNITS)} units run: {self._programs}'

    def _metric(self, unit, name):
        try:
            text = self.run('python3', '-c', GET, settings.URLS[unit])
        except demo_steps.StepFailed:
            return None
        return settings.metric(text, name)

    def _check_units(self):
        """Check that units run, have not been restarted, and work."""
        for unit, name, value in (
                ('octavia-xdp-agent', 'octavia_xdp_agent_announcer_up', 1),
                ('octavia-xdp-result-handler', 'octavia_xdp_open_slots', 0),
                ('octavia-xdp-controller', 'octavia_xdp_controller_leader',
                 1),
                ('octavia-xdp-host-agent', 'octavia_xdp_host_taps', 0)):
            try:
                root.wait(f'{name} {value} of {unit}',
                          lambda unit=unit, name=name, value=value:
                          self._metric(unit, name) == value)
            except demo_steps.StepFailed as error:
                raise demo_steps.StepFailed(
                    f'{error}\n{self.systemd.log(unit)}') from error
        for unit in UNITS:
            state = (self.systemd.shown(unit, 'ActiveState'),
                     self.systemd.shown(unit, 'NRestarts'))
            _expect(state == ('active', '0'),
                    f'{unit}: {state}\n{self.systemd.log(unit)}')
        self.run('octavia-xdp-member', 'check', 'eth2')
        self.run('octavia-xdp-ctl', 'show', 'services')

    def _attached(self):
        """Return a text with the ids of programs at interfaces."""
        words = self.run('ip', '-details', 'link', 'show', 'eth0').split()
        _expect('prog/xdp' in words, 'the uplink has no program')
        number = words[words.index('prog/xdp') + 2]
        member = self.run('tc', 'filter', 'show', 'dev', 'eth2', 'ingress')
        _expect(' id ' in member, 'the member has no program')
        return f'eth0 {number}, eth2 {member.split(" id ")[1].split()[0]}'

    def _pids(self, units):
        return {unit: self.systemd.shown(unit, 'MainPID') for unit in units}

    def upgrade(self):
        """Upgrade: the operator's files and the forwarding stay."""
        with open(root.ROOT / build.CONFFILE, 'a') as conffile:
            conffile.write(OPERATOR + '\n')
        before = self._pids(RESTARTED)
        self._apt_install('new', build.built())
        version = self._versions()
        _expect(build.OLD_VERSION not in version and len(version) == 1,
                f'installed: {version}')
        self._check_units()
        _expect(OPERATOR in (root.ROOT / build.CONFFILE).read_text(),
                f'{SYSCTL} lost the change of the operator')
        for unit, pid in self._pids(RESTARTED).items():
            _expect(pid != before[unit], f'{unit} is the old process')
        programs = self._attached()
        _expect(programs == self._programs,
                f'{self._programs} became {programs}')
        pids = self._pids(UNTOUCHED)
        _expect(pids == self._processes, f'{self._processes} became {pids}')
        return (f'{version.pop()}: the same programs and ExaBGP, new '
                f'processes of {len(RESTARTED)} units')

    def remove(self):
        """Remove: nothing runs, no program is attached, settings stay."""
        self.run('apt-get', 'remove', '--yes', *build.NAMES)
        for unit in UNITS:
            state = self.systemd.shown(unit, 'ActiveState')
            _expect(state in ('inactive', 'failed'), f'{unit} is {state}')
        programs = self.run('ip', '-details', 'link', 'show', 'eth0')
        _expect('prog/xdp' not in programs, f'still attached: {programs}')
        programs = self.run('tc', 'filter', 'show', 'dev', 'eth2', 'ingress')
        _expect('bpf' not in programs, f'still attached: {programs}')
        # The hypervisor's programs exist as long as their pins. The kernel's
        # own files there end in .debug.
        pins = self.run('find', '/sys/fs/bpf', '-mindepth', '1', '!', '-name',
                        '*.debug')
        _expect(not pins, f'still pinned: {pins}')
        for name in settings.FILES:
            path = root.ROOT / settings.DIRECTORY.lstrip('/') / name
            _expect(path.exists(), f'{path} is gone before purge')
        _expect(OPERATOR in (root.ROOT / build.CONFFILE).read_text(),
                f'{SYSCTL} is gone before purge')
        return 'settings stay'

    def purge(self):
        """Purge: no file is left but the users'."""
        self.run('apt-get', 'purge', '--yes', *build.NAMES)
        remaining = []
        for top in ('/', '/run', '/sys/fs/bpf'):
            remaining += self.run(
                'find', top, '-xdev', '(', '-path', '/run/logs', '-o',
                '-path', '/run/systemd', ')', '-prune', '-o', '-name',
                '*octavia[-_]xdp*', '-print').split()
        remaining += [
            path for path in ('/etc/octavia-xdp', '/var/lib/octavia-xdp')
            if os.path.lexists(root.ROOT / path.lstrip('/'))]
        _expect(not remaining, f'files are left: {remaining}')
        return 'no file is left'

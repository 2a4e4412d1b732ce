# SPDX-License-Identifier: Apache-2.0
"""A systemd of the test's own, with the units as they are shipped.

It is process 1 of a PID namespace with file systems, cgroups and a network of
its own, and everything in there ends with it. Needs root.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import uuid

from octavia_xdp_provider.tests.functional.support import private_node

CHECKOUT = pathlib.Path(__file__).parents[4]
DEPLOY = CHECKOUT / 'deploy'
UNITS = DEPLOY / 'systemd'
SYSTEMD = '/lib/systemd/systemd'
# Inside: where the test's files are, and where logs go.
HERE = '/run/test'
# Inside, where any user may enter it: it may lie below root's home.
OPEN = '/run/checkout'
UPLINK, NEXT_HOP = 'eth0', 'gw0'
ADDRESS, GATEWAY = '198.51.100.2', '198.51.100.1'
# Far above what it takes on an idle machine.
SOON_S = 120

_INSIDE = r'''
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$1" /mnt
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/systemd/system /run/test /run/checkout
mount --bind "$2" /run/checkout
mount --move /mnt /run/test
mount -t tmpfs tmpfs /var/lib
# The kernel refuses a file system on top of itself.
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
for name in passwd group; do
    mount --bind /run/test/etc/$name /etc/$name
done
systemd-tmpfiles --create /run/test/tmpfiles.conf
cp -r /run/test/units/. /run/systemd/system
ip link set lo up
ip link add eth0 type veth peer name gw0
ip link set eth0 up
ip link set gw0 up
ip address add 198.51.100.2/30 dev eth0
ip route add default via 198.51.100.1 dev eth0
exec env -i container=other PATH="$PATH" SYSTEMD_LOG_TARGET=console \
    /lib/systemd/systemd --system --unit=test.target --log-level=info \
    --show-status=no
'''
_SAME_VERSION = ('import sys; '
                 f'assert sys.version_info[:2] == {sys.version_info[:2]}')
# Its message when it gives up, since process 1 does not end.
_FROZEN = 'Freezing execution'
_TARGET = '[Unit]\nDefaultDependencies=no\n'
# Settings that differ here: programs, which may be below the /tmp that
# units do not see, their Python, their log, and nothing of a machine that
# boots.
_DROP_IN = '''[Unit]
DefaultDependencies=no
After=
Wants=
[Service]
ExecStart=
ExecStart={command}
StandardOutput=append:{log}
StandardError=append:{log}
ProtectHome=no
BindReadOnlyPaths={checkout}
{more}
'''


def hierarchy():
    """Where the cgroups of version 2 are, which is all that a systemd needs,
    or None. The machine may have version 1 beside it."""
    root = pathlib.Path('/sys/fs/cgroup')
    for path in root, root / 'unified':
        if (path / 'cgroup.controllers').exists():
            return path
    return None


def _all(directory):
    """Return all shipped files of a directory as one."""
    return ''.join(path.read_text() for path
                   in sorted((DEPLOY / directory).iterdir()))


class PrivateSystemd:
    """Runs from the constructor until the test ends.

    :param commands: unit without "octavia-xdp-" and ".service" → command and
        further lines of its section [Service].
    """

    def __init__(self, test, commands):
        if os.geteuid() != 0:
            test.skipTest('needs root')
        if not os.path.exists(SYSTEMD) or hierarchy() is None:
            test.skipTest('no systemd, or no cgroups of version 2')
        self._test = test
        self.directory = pathlib.Path(tempfile.mkdtemp(
            prefix='octavia-xdp-units-'))
        test.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        for unit, (command, more) in commands.items():
            self._write_unit(unit, command, more)
        (self.directory / 'units/test.target').write_text(_TARGET)
        self._make_users()
        (self.directory / 'tmpfiles.conf').write_text(_all('tmpfiles.d'))
        self._start()

    def _write_unit(self, unit, command, more):
        name = f'octavia-xdp-{unit}.service'
        drop_ins = self.directory / 'units' / f'{name}.d'
        drop_ins.mkdir(parents=True)
        shutil.copy(UNITS / name, self.directory / 'units')
        (drop_ins / 'test.conf').write_text(_DROP_IN.format(
            command=command, log=f'{HERE}/{unit}.log', checkout=CHECKOUT,
            more=more))

    def _make_users(self):
        """Those of the machine, and the shipped ones."""
        (self.directory / 'etc').mkdir()
        for name in ('passwd', 'group'):
            shutil.copy(f'/etc/{name}', self.directory / 'etc')
        subprocess.run(
            ['systemd-sysusers', f'--root={self.directory}', '-'],
            input=_all('sysusers.d'), text=True, check=True,
            capture_output=True)

    def _start(self):
        group = hierarchy() / f'octavia-xdp-{uuid.uuid4().hex[:8]}'
        group.mkdir()
        self._test.addCleanup(self._remove, group)
        script = self.directory / 'inside'
        script.write_text(_INSIDE)
        with open(self.directory / 'systemd.log', 'wb') as log:
            self._process = subprocess.Popen(
                ['bash', '-c', f'echo $$ > {group}/cgroup.procs\n'
                 'exec unshare --fork --pid --mount --uts --ipc --net '
                 '--cgroup --kill-child '
                 f'bash {script} {self.directory} {CHECKOUT}'],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._test.addCleanup(self._end)
        # In a cgroup with processes systemd cannot have controllers for those
        # below it, and this one stays outside.
        # By the first look systemd may be in a cgroup of its own below this.
        self._test.wait('its processes', lambda: len(
            (group / 'cgroup.procs').read_text().split()) > 1
            or any(path.is_dir() for path in group.iterdir())
            or self._process.poll() is not None)
        with contextlib.suppress(OSError):
            (hierarchy() / 'cgroup.procs').write_text(str(self._process.pid))
        self._test.addOnException(self._show_logs)
        self._test.wait('systemd', self._is_up)

    def _show_logs(self, _exc_info):
        for path in sorted(self.directory.glob('*.log')):
            print(f'--- {path.name}\n{path.read_text()[-6000:]}')

    def _end(self):
        # With its process 1 all of a PID namespace ends.
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _remove(self, path):
        # The processes end a moment after their process 1.
        self._test.wait(f'end of {path}', lambda: self._removed(path))

    @staticmethod
    def _removed(path):
        for directory, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        return not path.exists()

    def _is_up(self):
        if self._process.poll() is not None:
            self._test.fail('systemd has ended')
        if _FROZEN in self.log('systemd'):
            self._test.skipTest('systemd refuses to run here: '
                                + self.log('systemd').strip())
        children = pathlib.Path(
            f'/proc/{self._process.pid}/task/{self._process.pid}/children'
            ).read_text().split()
        self._init = children[0] if children else None
        return self._init and self.run(
            'systemctl', 'is-system-running', check=False).stdout.strip() in (
                'running', 'degraded')

    def run(self, *words, check=True, **options):
        """Run a command inside. Returns subprocess.CompletedProcess."""
        return subprocess.run(
            # --root: where tests themselves run in a root of their own.
            ['nsenter', '--target', self._init, '--mount', '--root', '--pid',
             '--net', '--ipc', '--uts', '--cgroup', '--', *words], text=True,
            capture_output=True, check=check, timeout=120, **options)

    def popen(self, *words):
        """Start a command inside; it ends with the test."""
        process = subprocess.Popen(
            ['nsenter', '--target', self._init, '--mount', '--root', '--pid',
             '--net', '--', *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self._test.addCleanup(end)
        return process

    def systemctl(self, verb, unit, check=True):
        done = self.run('systemctl', verb, f'octavia-xdp-{unit}.service',
                        check=False)
        if check and done.returncode:
            status = self.run('systemctl', '--no-pager', 'status',
                              f'octavia-xdp-{unit}.service', check=False)
            self._test.fail(f'{verb} {unit}: {done.stderr}\n{status.stdout}'
                            f'\n{self.log(unit)}\n{self.log("systemd")}')
        return done

    def shown(self, unit, name):
        """A property of a unit."""
        return self.run('systemctl', 'show', '--value', '--property', name,
                        f'octavia-xdp-{unit}.service').stdout.strip()

    def log(self, unit):
        path = self.directory / f'{unit}.log'
        return path.read_text() if path.exists() else ''

    def get(self, url):
        """Status and text of an answer inside."""
        done = self.run('curl', '-s', '-w', '\n%{http_code}', url,
                        check=False)
        text, _, status = done.stdout.rpartition('\n')
        return int(status or 0), text


def program(name):
    """A program of this project as it is installed beside Python."""
    return pathlib.Path(sys.executable).with_name(name)


def unprivileged_user():
    """A user who can run this Python: "nobody", unless it lies below a
    directory that is root's alone; with no capability, root will do then."""
    # The shell has lost what setpriv may still do.
    done = subprocess.run(
        ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--',
         'sh', '-c', f'{sys.executable} -c ""'], stderr=subprocess.DEVNULL)
    return 'root' if done.returncode else 'nobody'


def python_for_all():
    """A Python of this version that any user can run, with the modules of
    this one in PYTHONPATH, or None."""
    for python in (sys.executable, '/usr/bin/python3'):
        done = subprocess.run(
            ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups',
             '--', 'sh', '-c', f'{python} -c "{_SAME_VERSION}"'],
            stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return python
    return None


def modules():
    """PYTHONPATH of what this Python imports."""
    return f'{for_all(sysconfig.get_path("purelib"))}:{OPEN}'


def for_all(path):
    """Where units whose user is not root find a path of the checkout."""
    path = pathlib.Path(path)
    if path.is_relative_to(CHECKOUT):
        return pathlib.Path(OPEN, path.relative_to(CHECKOUT))
    return path


def library():
    return private_node.library_path()

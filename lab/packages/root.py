# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian with systemd as process 1 of its own namespaces.

All processes and mounts inside end with systemd. systemd-sysctl does not run,
so that kernel settings outside of network namespaces are not changed.
"""

import contextlib
import pathlib
import signal
import subprocess
import time
import uuid

from lab import demo_steps
from lab.packages import cgroups
from lab.packages import commands
from lab.packages import debian

ROOT = commands.FOLDER / 'root'
# systemd, and requirements of the test.
OWN = {'ethtool', 'iproute2', 'procps', 'python3', 'systemd', 'udev',
       'util-linux'}
# Much more than it takes on an idle machine.
SOON_S = 180
INSIDE = r'''
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --bind dev dev
mount -t tmpfs tmpfs run
# systemd writes its log there.
touch run/console
[ -e dev/console ] || touch dev/console
mount --bind run/console dev/console
mkdir -p run/lock run/systemd/system run/logs run/udev
# Without this file systemd does not expect udev, which starts later.
touch run/udev/control
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=0700 bpf sys/fs/bpf
printf '[Unit]\nDefaultDependencies=no\n' > run/systemd/system/test.target
mkdir run/systemd/system/octavia-xdp-.service.d
printf '%s\n' '[Unit]' DefaultDependencies=no '[Service]' \
    StandardOutput=append:/run/logs/%p.log \
    StandardError=append:/run/logs/%p.log \
    > run/systemd/system/octavia-xdp-.service.d/test.conf
ip link set lo up
eval "$2"
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
exec env -i container=other SYSTEMD_LOG_TARGET=console \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=test.target --log-level=info \
    --show-status=no
'''

# Interfaces, whose other ends are in the same namespace: the uplink of an LB
# node, that of a hypervisor, and a member's.
LOOPED = r'''
number=0
for name in eth0 eth1 eth2; do
    ip link add $name type veth peer name peer$number
    ip link set $name up
    ip link set peer$number up
    ip address add 198.51.100.$((4 * number + 2))/30 dev $name
    ethtool -K peer$number tx off tso off gso off > /dev/null
    number=$((number + 1))
done
ip route add default via 198.51.100.1 dev eth0
ip neighbour add 198.51.100.1 lladdr 02:00:00:00:00:01 dev eth0
'''


def make(names, *roots):
    """Unpack a Debian with packages of this machine's apt sources.

    :param names: packages, in addition to those of the test.
    :param roots: directories.
    """
    release = debian.own_release()
    how = debian.unpack(release, OWN | set(names), *roots)
    return f'{release}, {how}'


class Systemd:
    """systemd in a root, from ``start`` until ``end``.

    :param network: commands that run in the root before systemd starts; they
        create its interfaces.
    :param namespace: path of an existing network namespace.
    """

    def __init__(self, root=ROOT, network=LOOPED, namespace=None):
        self.root = root
        self._network = network
        self._enter = ['nsenter', f'--net={namespace}'] if namespace else []
        self._own = [] if namespace else ['--net']
        self._log = root.with_name(f'{root.name}-systemd.log')
        self._process = None
        self.init = None
        self._group = None

    def start(self):
        """Start systemd and wait until it is up."""
        self._group = cgroups.Group(
            f'octavia-xdp-packages-{uuid.uuid4().hex[:8]}')
        with open(self._log, 'wb') as log:
            self._process = subprocess.Popen(
                [*self._group.enter, *self._enter,
                 'unshare', '--fork', '--pid', '--mount', '--uts', '--ipc',
                 '--cgroup', '--kill-child', *self._own, 'bash', '-c', INSIDE,
                 'bash', str(self.root), self._network],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait('systemd', self._is_up)

    def _is_up(self):
        if self._process.poll() is not None:
            raise demo_steps.StepFailed(
                f'systemd: {self._log.read_text()[-3000:]}')
        children = pathlib.Path(
            f'/proc/{self._process.pid}/task/{self._process.pid}/children'
            ).read_text().split()
        if not children:
            return False
        self.init = children[0]
        try:
            return self.run('systemctl', 'show', '--value', '--property',
                            'ActiveState', 'test.target').strip() == 'active'
        except demo_steps.StepFailed:
            return False

    def run(self, *words):
        """Run a command inside and return its output."""
        return commands.run(
            'nsenter', f'--target={self.init}', '--mount', '--root', '--pid',
            '--net', '--ipc', '--uts', '--cgroup', '--', 'env', '-i',
            'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C.UTF-8',
            'DEBIAN_FRONTEND=noninteractive', *words)

    def add_devices(self):
        """Let udev make interfaces units of systemd, without other rules."""
        for path in (self.root / 'usr/lib/udev/rules.d').glob('*.rules'):
            if path.name != '99-systemd.rules':
                path.unlink()
        self.run('/lib/systemd/systemd-udevd', '--daemon')
        self.run('udevadm', 'trigger', '--action=add',
                 '--subsystem-match=net')

    def shown(self, unit, name):
        """Return a property of a unit."""
        return self.run('systemctl', 'show', '--value', '--property', name,
                        unit).strip()

    def log(self, unit):
        """Return the end of a unit's output."""
        name = unit.partition('@')[0]
        return self.run('sh', '-c', f'tail -c 3000 /run/logs/{name}.log || :')

    def end(self):
        """Kill systemd, and with it all processes of its PID namespace."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        if self._group is not None:
            with contextlib.suppress(demo_steps.StepFailed):
                wait('end of its processes', self._group.removed)
        self._process, self._group = None, None


def wait(what, condition):
    """Wait for a condition.

    :raises demo_steps.StepFailed: it was not met in time.
    """
    deadline = time.monotonic() + SOON_S
    while not condition():
        demo_steps.expect(time.monotonic() < deadline, f'no {what}')
        time.sleep(0.2)

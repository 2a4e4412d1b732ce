# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian in which commands run in their own namespaces.

They use the machine's network, to download packages. When the first process of
the PID namespace ends, all others end, too, and the mounts disappear.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading

from lab import demo_steps
from lab import paths
from lab.newcomer import configuration
from lab.packages import cgroups
from lab.packages import debian
from lab.packages import root as waiting

FOLDER = paths.BUILD / 'newcomer'
# The packages that README.rst requires.
PACKAGES = {'ca-certificates', 'git', 'make', 'python3'}
# Caches of package managers, by their path in the root. apt's is not one of
# them, because two processes cannot use it at the same time.
CACHE = FOLDER / 'cache'
CACHES = {'uv': 'root/.cache/uv', 'pip': 'root/.cache/pip',
          'cargo': 'root/.cargo/registry'}
ARCHIVES = 'var/cache/apt/archives'
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
# Much more than a whole "make test" takes on a busy machine.
LIMIT_S = 3 * 3600
INSIDE = r'''
set -e
root=$1 cache=$2 caches=$3 place=$4
shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --bind /dev dev
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=0755 tmpfs run
mkdir -p run/lock
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=0700 bpf sys/fs/bpf
if [ -d /lib/modules ]; then
    mkdir -p lib/modules
    mount --bind -o ro /lib/modules lib/modules
fi
for pair in $caches; do
    mkdir -p "${pair#*:}"
    mount --bind "$cache/${pair%%:*}" "${pair#*:}"
done
pivot_root . mnt
umount -l /mnt
cd "$place"
# bash stays process 1, because process 1 must reap orphans.
exec env -i HOME=/root USER=root "$@"
'''


class Root:
    """The root of a Debian release, until ``end``.

    :ivar path: its path on this machine.
    """

    def __init__(self, release):
        self.release = release
        FOLDER.mkdir(parents=True, exist_ok=True)
        with open(FOLDER / 'lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._remove_abandoned()
            self.path = FOLDER / f'{release}-{os.getpid()}'
            self._lock = os.open(self._lock_of(self.path),
                                 os.O_CREAT | os.O_WRONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def make(self):
        """Unpack the root and configure it like this machine."""
        how = debian.unpack(self.release, PACKAGES, self.path)
        self.path.chmod(0o755)
        # Its files need not survive a power failure.
        (self.path / 'etc/dpkg/dpkg.cfg.d/unsafe-io').write_text(
            'force-unsafe-io\n')
        configuration.copy(self.path)
        for name in CACHES:
            (CACHE / name).mkdir(parents=True, exist_ok=True)
        self._archives().mkdir(parents=True, exist_ok=True)
        _link(self._archives(), self.path / ARCHIVES)
        self.run('/', '/dev/null', 'update-ca-certificates')
        return f'{self.release}, {how}'

    def run(self, place, log, *words, show=False):
        """Run a command.

        :param place: its working directory in the root.
        :param log: file for its output.
        :param show: whether to print the output, too.
        :returns: the last line of its output.
        :raises demo_steps.StepFailed: it failed.
        """
        group = cgroups.Group(_group(self.path))
        caches = ' '.join(f'{name}:{path}' for name, path in CACHES.items())
        # The namespaces end with this process, in whatever way it ends.
        process = subprocess.Popen(
            [*group.enter, 'setpriv', '--pdeathsig', 'KILL', 'unshare',
             '--fork', '--kill-child', '--pid', '--mount', '--ipc',
             '--cgroup', 'bash', '-c', INSIDE, 'bash', self.path, CACHE,
             caches, place, f'PATH={PATH}',
             *configuration.variables(), 'bash', '-c', '"$@"; exit $?',
             'bash', *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        last = b''
        try:
            with open(log, 'wb', buffering=0) as file:
                for line in process.stdout:
                    file.write(line)
                    last = line.strip() or last
                    if show:
                        sys.stdout.buffer.write(line)
                        sys.stdout.buffer.flush()
            status = process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
            waiting.wait('end of its processes', group.removed)
        last_line = last.decode(errors='replace')
        demo_steps.expect(status == 0, f'exit status {status}: {last_line}; '
                          f'the whole output is in {log}')
        return last_line

    def end(self):
        """Remove the root, but keep the packages that apt has downloaded."""
        if (self.path / ARCHIVES).exists():
            _link(self.path / ARCHIVES, self._archives())
        _remove(self.path)
        self._lock_of(self.path).unlink()
        os.close(self._lock)

    def _archives(self):
        return CACHE / f'apt-{self.release}'

    @staticmethod
    def _lock_of(path):
        return path.with_name(f'{path.name}.lock')

    @classmethod
    def _remove_abandoned(cls):
        for path in FOLDER.glob('*-*.lock'):
            with open(path) as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path.with_suffix(''))
                path.unlink()


def _group(path):
    digest = hashlib.sha1(str(path).encode(), usedforsecurity=False)
    return f'octavia-xdp-newcomer-{digest.hexdigest()[:12]}'


def _remove(path):
    cgroups.Group(_group(path)).removed()
    shutil.rmtree(path, ignore_errors=True)


def _link(source, target):
    for path in pathlib.Path(source).glob('*.deb'):
        with contextlib.suppress(FileExistsError):
            os.link(path, target / path.name)

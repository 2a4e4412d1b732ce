# SPDX-License-Identifier: Apache-2.0
"""A machine without a disk boots the kernel of its lease, in network
namespaces of the test's own: QEMU with iPXE in its network card, and with
firmware (UEFI) that fetches iPXE first.

The site's DHCP server is in a namespace of its own, as the boot server only
adds to its answers.
"""

import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess

import fixtures

from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

KERNEL = '6.12'
MODULES = 'virtio_pci', 'virtio_net'
INIT = pathlib.Path(__file__).with_name('boot_init.sh')
BUSYBOX = '/bin/busybox'
# Of Debian's package ovmf; the second one keeps settings.
FIRMWARE = tuple(pathlib.Path('/usr/share/OVMF') / name
                 for name in ('OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'))
MAC, OTHER_MAC = '52:54:00:00:00:01', '52:54:00:00:00:99'
BOOT_S = 900
# iPXE gives up sooner than a kernel boots.
NO_BOOT_S = 150
_DHCP = '''\
#!/bin/sh
[ "$1" = bound ] && ip address add "$ip/$mask" dev "$interface"
exit 0
'''
_INVENTORY = f'''\
machines:
  lb1: {{role: load_balancer, address: 192.0.2.11, mac: '{MAC}'}}
kernels:
  debian-{KERNEL}:
    kernel: vmlinuz
    initramfs: initramfs
    root: root.cpio
    parameters: console=ttyS0 no_timer_check panic=-1 fetch=@root@
boot:
  interface: boot0
  address: 192.0.2.1
  network: 192.0.2.0/24
'''


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more).stdout


class TestBoot(base.TestCase):

    def setUp(self):
        super().setUp()
        # nginx's worker is nobody.
        self.folder = pathlib.Path('/run') / f'oxp-{secrets.token_hex(4)}'
        self.folder.mkdir(mode=0o711)
        self.addCleanup(shutil.rmtree, self.folder)
        self.work = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.image = command.CHECKOUT / 'build/kernels' / KERNEL
        run(command.CHECKOUT / 'tools/kernel-image', KERNEL)
        self.name = self.folder.name
        self.site = f'{self.name}-dhcp'
        self.make_network()
        self.bed = command.Command(self.folder, _INVENTORY)
        self.make_files()

    def make_network(self):
        """A bridge, a tap for QEMU, and the site's DHCP server."""
        for name in self.name, self.site:
            run('ip', 'netns', 'add', name)
            self.addCleanup(run, 'ip', 'netns', 'delete', name)
        own, site = (('ip', '-n', name) for name in (self.name, self.site))
        run(*own, 'link', 'add', 'boot0', 'type', 'bridge')
        run(*own, 'tuntap', 'add', 'tap0', 'mode', 'tap')
        run(*own, 'link', 'add', 'dhcp', 'type', 'veth', 'peer', 'name',
            'eth0', 'netns', self.site)
        for port in 'tap0', 'dhcp':
            run(*own, 'link', 'set', port, 'master', 'boot0', 'up')
        run(*own, 'link', 'set', 'boot0', 'up')
        run(*own, 'address', 'add', '192.0.2.1/24', 'dev', 'boot0')
        run(*site, 'address', 'add', '192.0.2.2/24', 'dev', 'eth0')
        run(*site, 'link', 'set', 'eth0', 'up')
        server = subprocess.Popen(
            ['ip', 'netns', 'exec', self.site, 'dnsmasq',
             '--keep-in-foreground', '--conf-file=/dev/null', '--port=0',
             '--interface=eth0', '--bind-interfaces',
             '--dhcp-range=192.0.2.100,192.0.2.120',
             '--dhcp-authoritative', '--dhcp-sequential-ip',
             f'--dhcp-leasefile={self.work}/leases', '--user=root'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

    def make_files(self):
        """Kernel, initramfs and root, beside the inventory."""
        shutil.copy(self.image / 'vmlinuz', self.folder / 'vmlinuz')
        stage = self.work / 'stage'
        for name in 'bin', 'dev', 'proc', 'sys', 'modules':
            (stage / name).mkdir(parents=True)
        shutil.copy(BUSYBOX, stage / 'bin/busybox')
        shutil.copy(INIT, stage / 'init')
        (stage / 'dhcp').write_text(_DHCP)
        for name in 'init', 'dhcp':
            (stage / name).chmod(0o755)
        modules = list(dict.fromkeys(
            path for name in MODULES for path in self.needed(name)))
        for path in modules:
            shutil.copy(self.image / 'modules' / path, stage / 'modules')
        (stage / 'modules/order').write_text(''.join(
            f'{pathlib.Path(path).name}\n' for path in modules))
        self.pack(stage, self.folder / 'initramfs')
        root = self.work / 'root'
        root.mkdir()
        self.marker = secrets.token_hex(8)
        (root / 'marker').write_text(f'{self.marker}\n')
        self.pack(root, self.folder / 'root.cpio')

    def needed(self, module):
        """Files of a module and of what it needs, the last of them first."""
        for line in (self.image / 'modules/modules.dep').read_text(
                ).splitlines():
            path, _, others = line.partition(':')
            if path.endswith(f'/{module}.ko'):
                return [*reversed(others.split()), path]
        builtin = (self.image / 'modules/modules.builtin').read_text()
        self.assertIn(f'/{module}.ko', builtin)
        return []

    def pack(self, folder, target):
        with open(target, 'wb') as file:
            names = '\n'.join(str(path.relative_to(folder))
                              for path in [folder, *folder.rglob('*')])
            subprocess.run([BUSYBOX, 'cpio', '-o', '-H', 'newc'],
                           input=names.encode(), cwd=folder, check=True,
                           stdout=file, stderr=subprocess.DEVNULL)

    def run_bed(self, *words):
        """In the namespace of the boot server."""
        return run('ip', 'netns', 'exec', self.name,
                   *self.bed.words(*words), cwd=command.CHECKOUT)

    def uefi(self):
        """What has QEMU boot by UEFI, without iPXE in the network card."""
        settings = self.work / 'settings'
        shutil.copy(FIRMWARE[1], settings)
        return ['-drive', 'if=pflash,format=raw,readonly=on,file='
                f'{FIRMWARE[0]}', '-drive',
                f'if=pflash,format=raw,file={settings}',
                # Newer ones boot by network only with random numbers.
                '-device', 'virtio-rng-pci', '-global',
                'virtio-net-pci.romfile=']

    def boot(self, mac, seconds, *more):
        """What a machine with this address says until it is off."""
        words = ['ip', 'netns', 'exec', self.name, 'setpriv', '--pdeathsig',
                 'KILL', '--', 'qemu-system-x86_64', '-nodefaults',
                 '-no-user-config', '-no-reboot', '-machine',
                 'q35,graphics=off', '-cpu', 'max', '-accel',
                 'tcg,thread=single', '-m', '512', '-display', 'none',
                 '-serial', 'stdio', '-boot', 'n',
                 '-netdev', 'tap,id=n,ifname=tap0,script=no,downscript=no',
                 '-device', f'virtio-net-pci,netdev=n,mac={mac}', *more]
        with subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT) as guest:
            try:
                said, _ = guest.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                guest.kill()
                said, _ = guest.communicate()
        return said.decode(errors='replace')

    def servers(self):
        """Process numbers of the boot server, without those that ended.

        Where nobody collects orphans, those stay, without a command line.
        """
        numbers = [int(path.read_text()) for path
                   in (self.folder / 'boot/run').glob('*.pid')]
        return [number for number in numbers
                if (commands := pathlib.Path(f'/proc/{number}/cmdline')
                    ).exists() and commands.read_bytes()]

    def end_servers(self):
        """Those that a failure left."""
        for number in self.servers():
            os.kill(number, signal.SIGTERM)

    def has_booted(self, said):
        """The kernel and the root of the first lease."""
        match = re.search(r'BOOTED kernel=(\S+) lease=(\d+) root=(\w+)', said)
        self.assertIsNotNone(match, said)
        self.assertIn(f'linux-image-{match[1]}',
                      (self.image / 'package').read_text())
        self.assertEqual(('1', self.marker), match.groups()[1:])

    def sent(self):
        """Files that dnsmasq has sent as a whole, in their order."""
        log = (self.folder / 'boot/run/dnsmasq.log').read_text()
        return list(dict.fromkeys(
            re.findall(r'sent \S*/boot/served/(\S+) to', log)))

    def test_all_of_it_comes_by_tftp(self):
        path = self.folder / 'inventory.yaml'
        path.write_text(f'{_INVENTORY}  protocol: tftp\n')
        self.run_bed('reserve', 'lb1', '--purpose', 'a kernel', '--kernel',
                     f'debian-{KERNEL}')
        self.assertIn(', dnsmasq started\n', self.run_bed('sync'))
        self.addCleanup(self.end_servers)
        self.assertEqual(1, len(self.servers()))
        fetched = [f'{MAC.replace(":", "-")}.ipxe',
                   *(f'kernels/debian-{KERNEL}/{name}'
                     for name in ('vmlinuz', 'initramfs', 'root'))]
        self.has_booted(self.boot(MAC, BOOT_S, *self.uefi()))
        self.assertEqual(['ipxe.efi', *fetched], self.sent())
        # The network card's own iPXE.
        (self.folder / 'boot/run/dnsmasq.log').write_text('')
        self.has_booted(self.boot(MAC, BOOT_S))
        self.assertEqual(fetched, self.sent())

    @form.in_long_form
    def test_a_machine_boots_the_kernel_of_its_lease(self):
        self.run_bed('reserve', 'lb1', '--purpose', 'a kernel', '--kernel',
                     f'debian-{KERNEL}')
        self.assertIn('dnsmasq and nginx started', self.run_bed('sync'))
        self.addCleanup(self.end_servers)
        self.assertEqual(2, len(self.servers()))
        # Another sync leaves them alone.
        self.assertNotIn('started', self.run_bed('sync'))
        self.has_booted(self.boot(MAC, BOOT_S))
        # Nobody else boots, and nobody does after the lease.
        self.assertNotIn('BOOTED', self.boot(OTHER_MAC, NO_BOOT_S))
        self.run_bed('release', '1')
        self.assertIn('boot server: stopped', self.run_bed('sync'))
        self.assertEqual([], self.servers())

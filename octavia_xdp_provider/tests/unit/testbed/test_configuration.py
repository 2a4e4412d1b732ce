# SPDX-License-Identifier: Apache-2.0
"""Rendered configuration, and the repository that follows the log."""

import pathlib
import subprocess

import fixtures

from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples
from testbed import configuration
from testbed import folder as folders
from testbed import inventory
from testbed import repository

FRR = 'switches/leaf1/frr.conf'
INTERFACES = 'switches/leaf1/interfaces'
SCRIPT = 'boot/52-54-00-00-00-01.ipxe'


class ConfigurationTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.site = samples.Site(
            pathlib.Path(self.useFixture(fixtures.TempDir()).path))

    def rendered(self):
        return configuration.render(self.site.leases.active(),
                                    self.site.known)


class TestRender(ConfigurationTest):

    def test_without_leases_all_ports_are_down(self):
        files = self.rendered()
        self.assertEqual({FRR, INTERFACES}, set(files))
        self.assertEqual(3, files[INTERFACES].count('link-down yes'))
        self.assertNotIn('vrf', files[INTERFACES] + files[FRR])

    def test_a_lease_has_its_vrf_ports_and_neighbors(self):
        self.site.reserve('gen1', 'lb1')
        files = self.rendered()
        self.assertIn('''
auto bed1
iface bed1
    vrf-table auto

auto swp1
iface swp1
    vrf bed1
    address 198.18.0.1/24

auto swp2
iface swp2
    vrf bed1
    address 198.18.1.1/30
    address 2001:db8:1::1/126

auto swp3
iface swp3
    link-down yes
''', files[INTERFACES])
        self.assertIn('''
router bgp 65000 vrf bed1
 bgp router-id 198.18.0.1
 no bgp default ipv4-unicast
 neighbor 198.18.1.2 remote-as 65001
 !
 address-family ipv4 unicast
  neighbor 198.18.1.2 activate
''', files[FRR])
        self.assertIn('ip prefix-list ANNOUNCED seq 5 permit 203.0.113.0/24 '
                      'le 32\n', files[FRR])

    def test_leases_with_the_same_addresses_are_in_vrfs_of_their_own(self):
        self.site.reserve('lb1')
        self.site.reserve('lb2', owner='bob')
        files = self.rendered()
        for text in files.values():
            self.assertEqual(text.count('bed1'), text.count('bed2'))
        self.assertIn('vrf bed2\n    address 198.18.1.1/30',
                      files[INTERFACES])

    def test_what_boots_names_the_lease_and_the_root(self):
        self.site.reserve('lb1', kernel='debian-6.12')
        self.assertEqual('''\
#!ipxe
# Lease 1.
kernel http://192.0.2.1:8069/kernels/debian-6.12/vmlinuz initrd=initramfs \
console=ttyS0 fetch=http://192.0.2.1:8069/kernels/debian-6.12/root \
octavia_xdp_lease=1
initrd --name initramfs http://192.0.2.1:8069/kernels/debian-6.12/initramfs
boot
''', self.rendered()[SCRIPT])

    def test_the_boot_server_knows_machines_of_leases_alone(self):
        texts = configuration.boot_servers(
            ['52-54-00-00-00-01.ipxe'], self.site.known.boot,
            pathlib.Path('/srv/boot'), 'nobody nogroup')
        self.assertIn('''
dhcp-host=52:54:00:00:00:01,set:leased,set:m525400000001
dhcp-boot=tag:ipxe,tag:m525400000001,\
http://192.0.2.1:8069/52-54-00-00-00-01.ipxe,,192.0.2.1
''', texts['dnsmasq.conf'])
        self.assertIn('dhcp-range=192.0.2.0,proxy,255.255.255.0\n',
                      texts['dnsmasq.conf'])
        self.assertIn('dhcp-ignore=tag:!leased\n', texts['dnsmasq.conf'])
        self.assertIn('listen 192.0.2.1:8069;', texts['nginx.conf'])

    def test_all_comes_by_tftp_if_that_is_said(self):
        self.site.known = inventory.load(samples.write(
            self.site.folder, samples.TEXT.replace(
                'boot: {', 'boot: {protocol: tftp, ')))
        self.site.reserve('lb1', kernel='debian-6.12')
        script = self.rendered()[SCRIPT]
        self.assertEqual(3, script.count(
            'tftp://192.0.2.1/kernels/debian-6.12/'), script)
        self.assertNotIn('http', script)
        texts = configuration.boot_servers(
            ['52-54-00-00-00-01.ipxe'], self.site.known.boot,
            pathlib.Path('/srv/boot'), None)
        self.assertEqual(['dnsmasq.conf'], list(texts))
        self.assertIn(',tftp://192.0.2.1/52-54-00-00-00-01.ipxe,,192.0.2.1\n',
                      texts['dnsmasq.conf'])
        self.assertIn('tftp-root=/srv/boot/served\n', texts['dnsmasq.conf'])

    def test_nothing_of_owner_and_purpose_becomes_configuration(self):
        texts = []
        for owner, purpose in (
                ('alice', 'rates'),
                ('bed9', '{{ 7 * 7 }} {% raw %} $(reboot) `reboot` ; ! # %'),
                ('a--upload-pack.x', "'; DROP TABLE leases; -- <script>"),
                ('0..lock', '\\n router bgp 1 \\ M 100644 inline x')):
            with self.subTest(owner):
                site = samples.Site(pathlib.Path(
                    self.useFixture(fixtures.TempDir()).path))
                site.reserve('gen1', 'lb1', owner=owner, purpose=purpose,
                             kernel=None)
                texts.append(configuration.render(site.leases.active(),
                                                  site.known))
        self.assertEqual(texts[:1] * 4, texts)

    def test_a_machine_that_left_the_inventory_has_nothing(self):
        self.site.reserve('lb1', 'lb2', kernel='debian-6.12')
        text = samples.TEXT
        begin, end = text.index('  lb1:'), text.index('  lb2:')
        path = samples.write(self.site.folder, text[:begin] + text[end:])
        files = configuration.render(self.site.leases.active(),
                                     inventory.load(path))
        self.assertNotIn(SCRIPT, files)
        self.assertNotIn('swp2', files[INTERFACES])


class TestRepository(ConfigurationTest):

    def setUp(self):
        super().setUp()
        self.repository = repository.Repository(
            folders.Folder(self.site.folder))

    def follow(self, who='carol'):
        return self.repository.follow(self.site.leases, self.site.known, who)

    def git(self, *words):
        return subprocess.run(
            ['git', f'--git-dir={self.site.folder}/configuration.git', *words],
            capture_output=True, text=True, check=True).stdout

    def test_each_change_is_a_commit_of_the_owner(self):
        self.site.reserve('lb1')
        self.follow()
        self.site.reserve('lb2', owner='bob')
        self.site.leases.renew(1, 'alice', 48, self.site.known)
        self.site.leases.release(1, 'alice')
        commit, files = self.follow()
        self.assertEqual(
            'alice Lease 1: release\nbob Lease 2: reserve\n'
            'alice Lease 1: reserve\n', self.git('log', '--format=%an %s'))
        self.assertEqual(commit, self.git('rev-parse', 'main').strip())
        self.assertEqual(files, self.repository.files())
        self.assertEqual(self.rendered(), files)
        self.git('fsck', '--strict')

    def test_followed_again_nothing_happens(self):
        self.site.reserve('lb1')
        commit, _ = self.follow()
        self.assertEqual(commit, self.follow()[0])

    def test_entries_that_a_killed_process_left_are_made_up_for(self):
        self.site.reserve('lb1')
        self.follow()
        for _ in range(2):
            self.site.reserve('lb2', owner='bob')
            self.site.leases.release(len(self.site.leases.log()) // 2 + 1,
                                     'bob')
        # A killed git's.
        for lock in ('refs/heads/main.lock', 'HEAD.lock'):
            (self.site.folder / 'configuration.git' / lock).touch()
        self.follow()
        self.assertEqual(5, len(self.git('log', '--format=%h').split()))
        self.assertIn('bed3', self.git('show', f'main~1:{INTERFACES}'))
        self.assertNotIn('bed3', self.git('show', f'main:{INTERFACES}'))

    def test_a_changed_inventory_is_a_commit_of_who_synced(self):
        self.follow()
        text = samples.TEXT.replace('65000', '65010')
        self.site.known = inventory.load(samples.write(self.site.folder, text))
        self.site.reserve('lb1')
        self.follow()
        self.site.known = inventory.load(samples.write(self.site.folder))
        self.follow('dave')
        self.assertEqual(
            ['dave Inventory: what is rendered of it has changed',
             'alice Lease 1: reserve',
             'carol Inventory: what is rendered of it has changed'],
            self.git('log', '--format=%an %s').splitlines())

    def test_a_hostile_purpose_is_a_message_and_nothing_else(self):
        purpose = 'Log-Entry: 99 <a@b> from 0000 M 100644 inline x ♥'
        self.site.reserve('lb1', purpose=purpose)
        self.follow()
        self.site.leases.release(1, 'alice')
        self.follow()
        self.assertIn(purpose, self.git('log', '--format=%B'))
        self.assertEqual(2, len(self.git('log', '--format=%h').split()))
        self.assertEqual(f'{FRR}\n{INTERFACES}\n', self.git(
            'ls-tree', '-r', '--name-only', 'main'))

    def test_the_diff_is_against_what_is_applied(self):
        self.assertEqual('', self.repository.diff())
        commit, _ = self.follow()
        self.assertIn('new file mode 100644\n', self.repository.diff())
        self.repository.mark_applied(commit)
        self.assertTrue(self.repository.is_applied())
        self.assertEqual('', self.repository.diff())
        self.site.reserve('lb1')
        self.follow()
        self.assertFalse(self.repository.is_applied())
        self.assertIn('+    vrf bed1\n', self.repository.diff())
        self.assertIn('-    link-down yes\n', self.repository.diff())

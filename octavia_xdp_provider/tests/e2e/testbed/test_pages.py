# SPDX-License-Identifier: Apache-2.0
"""The pages in a real Chromium, in which no JavaScript runs.

Pictures go to build/testbed-pictures; the documentation shows one of them.
"""

import base64
import hashlib
import pathlib
import shutil
import subprocess
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import serialization
import fixtures
from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.chrome import service
from selenium.webdriver.common.by import By
from selenium.webdriver.support import ui

from lab import paths
from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.functional.testbed import https
from octavia_xdp_provider.tests.functional.testbed import pages
from octavia_xdp_provider.tests.unit import base

PICTURES = paths.BUILD / 'testbed-pictures'
WIDTH, HEIGHT = 1200, 1000
WAIT_S = 120
INVENTORY = '''\
switches:
  leaf1: {address: 192.0.2.2, as: 65000, announced: [203.0.113.0/24]}
machines:
  generator-1:
    role: generator
    address: 192.0.2.11
    ports:
    - {switch: leaf1, port: swp1, addresses: [198.18.0.1/24]}
  lb-1:
    role: load_balancer
    address: 192.0.2.12
    ports:
    - switch: leaf1
      port: swp2
      addresses: [198.18.1.1/30]
      bgp: {address: 198.18.1.2, as: 65001}
  lb-2:
    role: load_balancer
    address: 192.0.2.13
    ports:
    - switch: leaf1
      port: swp3
      addresses: [198.18.1.5/30]
      bgp: {address: 198.18.1.6, as: 65002}
  member-1:
    role: member
    address: 192.0.2.14
    ports:
    - {switch: leaf1, port: swp4, addresses: [198.18.2.1/24]}
'''


class TestPages(base.TestCase):
    """Behind nginx, which speaks TLS and knows users."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.bed = command.Command(self.folder, INVENTORY)
        status, said = self.bed.run(
            'reserve', 'lb-2', '--purpose', 'zero-loss search, 64 B frames',
            owner='bob')
        self.assertEqual(0, status, said)
        certificate = https.Certificate(self)
        self.url = https.proxy(self, pages.serve(self, self.bed), certificate,
                               self.folder / 'nginx')
        own = x509.load_pem_x509_certificate(
            pathlib.Path(certificate.certificate).read_bytes())
        digest = hashlib.sha256(own.public_key().public_bytes(
            serialization.Encoding.DER,
            serialization.PublicFormat.SubjectPublicKeyInfo)).digest()
        # Chromium knows no authority of tests: this key is taken, no other.
        self.browser = self.open_browser(
            '--ignore-certificate-errors-spki-list='
            + base64.b64encode(digest).decode())
        # As a person types them when the browser asks; it remembers.
        scheme, rest = self.url.split('://')
        self.browser.get(f'{scheme}://alice:'
                         f'{urllib.parse.quote(https.PASSWORD)}@{rest}/')
        self.shows('Who has what')

    def open_browser(self, *arguments):
        options = webdriver.ChromeOptions()
        for argument in (
                '--headless=new', f'--window-size={WIDTH},{HEIGHT}',
                # Its sandbox refuses to be root's; it opens our pages only.
                '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu',
                '--no-first-run', '--disable-background-networking',
                f'--user-data-dir={self.folder}/chromium', *arguments):
            options.add_argument(argument)
        options.add_experimental_option('prefs', {
            'profile.managed_default_content_settings.javascript': 2})
        browser = webdriver.Chrome(options, service.Service(
            shutil.which('chromedriver')))
        self.addCleanup(browser.quit)
        browser.set_page_load_timeout(WAIT_S)
        return browser

    def text(self):
        return self.browser.find_element(By.TAG_NAME, 'body').text

    def shows(self, text):
        try:
            ui.WebDriverWait(
                self.browser, WAIT_S, 0.2, ignored_exceptions=[
                    exceptions.StaleElementReferenceException,
                    exceptions.NoSuchElementException],
            ).until(lambda _: text in self.text())
        except exceptions.TimeoutException:
            self.fail(f'no {text!r} in:\n{self.text()}')

    def press(self, text):
        self.browser.find_element(
            By.XPATH, f'//button[normalize-space()="{text}"]').click()

    def field(self, label):
        """By the label that a person reads."""
        element = self.browser.find_element(
            By.XPATH, f'//label[normalize-space()="{label}"]')
        return self.browser.find_element(By.ID, element.get_attribute('for'))

    def write(self, label, text):
        field = self.field(label)
        field.clear()
        field.send_keys(text)

    def follow(self, text):
        self.browser.find_element(By.LINK_TEXT, text).click()

    def picture(self, name):
        """A small PNG of the window."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f'{name}.png'
        self.browser.save_screenshot(str(path))
        if shutil.which('pngquant'):
            subprocess.run(['pngquant', '--force', '--ext', '.png', '48',
                            path], check=True)

    def reserve(self, machine, purpose):
        self.field(machine).click()
        self.write('Purpose', purpose)
        self.write('Hours', '4')
        self.press('Reserve')

    def test_from_a_lease_to_the_log(self):
        self.reserve('lb-1 (load balancer)', 'SYN flood at <1 % loss')
        self.shows('Lease 2 is yours until')
        self.shows('SYN flood at <1 % loss')
        self.shows('Not applied yet')
        self.picture('machines')
        self.reserve('lb-2 (load balancer)', 'another')
        self.shows('lb-2 is taken by bob until')
        self.write('Hours from now', '12')
        self.press('Renew lease 2')
        self.shows('Lease 2 is yours until')
        self.follow('Diff')
        self.shows('+    vrf bed2')
        self.picture('diff')
        self.press('Sync')
        # The page reloads itself until it is done.
        self.shows('applied: commit')
        self.shows('done')
        self.follow('Machines')
        self.shows('have what the leases say')
        self.press('Release lease 2')
        self.shows('Lease 2 has ended')
        self.follow('Log')
        for word in 'reserve', 'renew', 'sync', 'release':
            self.shows(word)

    def test_the_session_goes_by_https_alone(self):
        cookie, = self.browser.get_cookies()
        self.assertEqual(
            ('__Host-session', True, True, 'Lax', '/'),
            tuple(cookie[name] for name in (
                'name', 'secure', 'httpOnly', 'sameSite', 'path')))

    def test_a_form_of_another_site_is_refused(self):
        """It changes nothing of the session."""
        form = (f'<form method=post action={self.url}/reserve>'
                '<input name=machines value=lb-1>'
                '<input name=purpose value=x><input name=hours value=1>'
                '<button>Win a prize</button></form>')
        self.browser.get('data:text/html,' + urllib.parse.quote(form))
        self.press('Win a prize')
        self.shows('Refused')
        self.browser.get(self.url)
        self.shows('Who has what')
        self.assertNotIn('Your leases', self.text())
        self.assertNotIn('alice', self.bed.run('list')[1])

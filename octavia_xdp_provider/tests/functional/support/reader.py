# SPDX-License-Identifier: Apache-2.0
"""Somebody who types what pages say, in a cloud where nothing is yet.

This loads Octavia, with its options and its database, which other tests of a
process must not find: see `own_process`.
"""

import contextlib
import io
import json
import pathlib
import tempfile

import fixtures

from octavia_xdp_provider.config import options
from octavia_xdp_provider.tests.functional.support import command_line
from octavia_xdp_provider.tests.functional.support import documented
from octavia_xdp_provider.tests.functional.support import octavia_api

# Objects that operators have made before, by the names in the pages.
FLAVORS = {
    'quic': {'quic': True},
    'rewrite': {'member_port': 'rewrite'},
    'vms': {'zero_touch': 'required'},
    'xdp': {},
    'xdp-vms': {'zero_touch': 'required'},
}
ZONES = {'east': {'zone': 'east'}}
NETWORKS = {'vip': octavia_api.VIPS,
            'members': ('198.18.0.0/15', '10.0.0.0/8', '2001:db8:10::/44')}


def _policy():
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        for group, networks in NETWORKS.items():
            file.write(f'[{group}]\nallowed_networks = '
                       f'{",".join(networks)}\n')
        file.flush()
        return options.api_policy(options.load(config_files=[file.name]))


class Reader(fixtures.Fixture):

    def _setUp(self):
        api = self.useFixture(octavia_api.OctaviaApi(_policy()))
        self.line = command_line.CommandLine(api)

    def run_command(self, words):
        """Run what a page has, with what it means by its words in capitals.

        :returns: why it was refused, or None.
        """
        said = io.StringIO()
        with (contextlib.redirect_stderr(said),
              contextlib.redirect_stdout(io.StringIO())):
            try:
                self.line.run(*(self._meant(word) for word in words))
            except (Exception, SystemExit) as error:
                return f'{" ".join(words)}: {said.getvalue()}{error}'
        return None

    def _meant(self, word):
        if word in ('MEMBER', 'MONITOR'):
            [pool] = self.line.octavia.pool_list(name='web-pool')['pools']
            return (pool['healthmonitor_id'] if word == 'MONITOR'
                    else pool['members'][0]['id'])
        return {'POOL': 'web-pool'}.get(word, word)

    def _make_what_operators_make(self, text):
        for kind, option, made in (
                ('flavor', '--flavor-data', FLAVORS),
                ('availabilityzone', '--availability-zone-data', ZONES)):
            for name, data in made.items():
                here = f'{kind} create --name {name} '
                if name in text and here not in text:
                    self._make(kind, option, name, data)

    def _make(self, kind, option, name, data):
        self.line.run('loadbalancer', f'{kind}profile', 'create', '--name',
                      f'of-{name}', '--provider', 'xdp', option,
                      json.dumps(data))
        self.line.run('loadbalancer', kind, 'create', '--name', name,
                      f'--{kind}profile', f'of-{name}', '--enable')

    def read(self, page):
        """Run all that a page has; returns what was refused.

        A page that does not make the load balancer of the first page by
        itself is read after that one.
        """
        text = page.read_text()
        wanted = documented.commands(text)
        self._make_what_operators_make(text)
        if '--name web ' not in text:
            for words in documented.commands(documented.FIRST.read_text()):
                # One monitor for a pool: the page's takes its place.
                if words[1] != 'healthmonitor' or words[:3] not in [
                        own[:3] for own in wanted]:
                    self.run_command(words)
        refused = [self.run_command(words) for words in wanted]
        for number, data in enumerate(documented.flavor_data(text)):
            refused.append(self.run_command([
                'loadbalancer', 'flavorprofile', 'create', '--name',
                f'data-{number}', '--provider', 'xdp', '--flavor-data',
                data]))
        return list(filter(None, refused))


def read(pages):
    """Return the refused commands of pages, by path; each page runs in a cloud
    of its own."""
    refused = {}
    for page in pages:
        with Reader() as reader:
            refused[page] = reader.read(pathlib.Path(page))
    return refused


def run(commands):
    """Why commands are refused after those of the first page; None: they
    are not."""
    with Reader() as reader:
        refused = reader.read(documented.FIRST)
        assert not refused, refused
        return [reader.run_command(['loadbalancer', *words.split()])
                for words in commands]

# SPDX-License-Identifier: Apache-2.0
"""An agent's parts on files of a test's own, and a launcher made of them."""

import json
import pathlib

import fixtures
from oslo_config import cfg

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import reconcile
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.proxy.agent import run_directory
from octavia_xdp_provider.proxy.agent import states
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base

FIRST, SECOND = documents.uuid_of('first'), documents.uuid_of('second')
MEMBER = documents.uuid_of('m1')
NODE = plans.Node('proxy1', (2, 6), connections=100, threads=1,
                  memory_bytes=1 << 26, cpu_weight=100, stop_after_s=30)
# The launcher's state of a load balancer that runs.
STATE = {'phase': 'running', 'configuration_hash': None, 'pid': None,
         'certificates': None, 'restarts': 0, 'listening': True,
         'error': None, 'judged_hash': None}
NUMBERS = range(70000, 70004)


def document(identity=FIRST, **more):
    return {**documents.web(**more), 'id': identity}


class Secrets:
    """:ivar contents: files by name; None while they are missing.

    :ivar asked: the hashes of each call.
    :ivar news: load balancers whose files have changed.
    :ivar problem: why something is missing.
    """

    def __init__(self):
        self.contents = None
        self.asked = []
        self.news, self.wanted = set(), {}
        self.problem = None

    def want(self, bundles):
        self.wanted = dict(bundles)

    def changed(self):
        news, self.news = self.news, set()
        return news

    def files(self, load_balancer_id, hashes):
        self.asked.append(hashes)
        if self.contents is None:
            raise parts.Missing('no certificate yet')
        return dict(self.contents)


class Health(parts.NoHealth):
    """:ivar members: state by id, of all load balancers."""

    def __init__(self):
        self.members, self.news, self.wanted = {}, set(), {}

    def want(self, documents):
        self.wanted = dict(documents)

    def changed(self):
        news, self.news = self.news, set()
        return news

    def states(self, load_balancer_id):
        return self.members

    def down(self, load_balancer_id):
        return frozenset(key for key, state in self.members.items()
                         if state == 'down')


class NodeTestCase(base.TestCase):
    """:ivar agent: the reconciler. ``restart`` is a kill and a start."""

    def setUp(self):
        super().setUp()
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.StrOpt('run_directory'),
                            cfg.StrOpt('state_directory')], group='proxy')
        conf.set_override('run_directory', str(top / 'run'), 'proxy')
        conf.set_override('state_directory', str(top / 'own'), 'proxy')
        self.top = top
        (top / 'run' / 'state').mkdir(parents=True)
        self.files = run_directory.RunDirectory(conf)
        self.files.make()
        self.secrets, self.health = Secrets(), Health()
        self.entries = {}
        self.as_of = 0
        self.restart()

    def restart(self):
        written = orders.Orders(self.files)
        written.clean()
        self.states = states.States(self.files.states)
        self.agent = reconcile.Reconciler(
            written, records.Records(self.files.records, NUMBERS,
                                     written.numbers()),
            self.states, parts.Parts(self.secrets, self.health))

    def run_pass(self, *wanted_documents, node=NODE):
        """Want these documents; an unchanged one keeps its generation."""
        self.as_of += 1
        before, self.entries = self.entries, {}
        for wanted_document in wanted_documents:
            key = wanted_document['id']
            entry = before.get(key)
            if entry is None or entry[1] != wanted_document:
                entry = self.as_of, wanted_document
            self.entries[key] = entry
        changed = self.states.look()
        self.agent.reconcile(wanted.Wanted(self.as_of, self.entries), node)
        self.agent.look(changed)

    def look(self):
        self.agent.look(self.states.look())

    def directory(self, key=FIRST):
        return self.top / 'run' / 'wanted' / key

    def launch(self, key=FIRST):
        return json.loads(
            (self.directory(key) / proxy_launch.LAUNCH).read_bytes())

    def configuration(self, key=FIRST):
        return (self.directory(key) / proxy_launch.CONFIGURATION).read_text()

    def answer(self, key=FIRST, **more):
        """Answer as a launcher that serves what is wanted, but for ``more``.
        """
        launch = self.launch(key)
        state = {
            **STATE, 'certificates': launch['certificates'],
            **dict.fromkeys(('configuration_hash', 'judged_hash'),
                            launch['configuration_hash']), **more}
        path = self.top / 'run' / 'state' / f'{key}.json'
        new = path.with_suffix('.new')
        new.write_text(json.dumps(state))
        new.rename(path)
        self.look()

    def end(self, key=FIRST):
        """Answer that nothing is left of a load balancer."""
        (self.top / 'run' / 'state' / f'{key}.json').unlink()
        self.look()

    def held(self, key=FIRST):
        """Return generation and error, None if nothing is reported."""
        held = self.agent.held.get(key)
        return held and (held['generation'], held['error'])

    def statuses(self, key=FIRST):
        """Return what shows whether a file was written again."""
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
                for path in self.directory(key).iterdir()}

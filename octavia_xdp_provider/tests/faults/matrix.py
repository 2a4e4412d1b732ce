# SPDX-License-Identifier: Apache-2.0
"""One fault after the other, each while tenants create, change, delete and
fail over load balancers and a client asks one that nobody changes."""

import contextlib
import dataclasses
import json
import random
import threading
import time

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import octavia
from lab.fabric import client
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.faults import steps
from octavia_xdp_provider.tests.faults import strikes
from octavia_xdp_provider.tests.faults import victims

STEPS = ('create', 'member', 'delete', 'failover')
# Seconds after which something that was killed is started again.
_DEAD_S = 2
# The fault comes at some time in the first seconds of the steps.
_FIRST_S = 2.5
# Between two requests of the client.
_PAUSE_S = 0.05


@dataclasses.dataclass
class Result:
    """A row of the matrix. ``cells``: step → "ok" or what was wrong."""

    process: str
    fault: str
    after_s: float
    cells: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_ok(self):
        return set(self.cells.values()) <= {'ok', '—'}


class Matrix:
    """Cases on a running lab.

    :param seed: of when faults come.
    """

    def __init__(self, lab, seed, wanted_steps=STEPS):
        self._lab = lab
        self._random = random.Random(seed)
        self._steps = wanted_steps
        self._tenants = {name: steps.Tenant(lab) for name in (
            *STEPS, 'steady')}
        self._with_vip = []
        self._flavors = contextlib.ExitStack()
        victims.keep_commits(lab)
        with namespaces.inside(lab, paths.CONTROL):
            alone = self._one_node()
        self._webs = {
            'steady': steps.Web('steady', topology.MEMBERS[:2]),
            'member': steps.Web('member', topology.MEMBERS[1:3]),
            'delete': steps.Web('delete', topology.MEMBERS[2:]),
            'failover': steps.Web('failover', topology.MEMBERS[:1], alone)}
        for web in self._webs.values():
            self._make(web)

    def close(self):
        """Delete what was made."""
        for web in self._webs.values():
            self._tenants['steady'].delete(web)
        for web in self._webs.values():
            self._tenants['steady'].check_gone(web)
        for vip in self._with_vip:
            members.remove_vip(self._lab, vip, topology.MEMBERS)
        with namespaces.inside(self._lab, paths.CONTROL):
            self._flavors.close()

    def _one_node(self):
        """A flavor of load balancers on one node: those can move."""
        admin = cloud.connect(self._lab, cloud.ADMIN).load_balancer
        name = f'faults-{self._random.getrandbits(32):x}'
        profile = admin.create_flavor_profile(
            name=name, provider_name='xdp',
            flavor_data=json.dumps({'replicas': 1}))
        self._flavors.callback(admin.delete_flavor_profile, profile)
        flavor = admin.create_flavor(name=name, is_enabled=True,
                                     flavor_profile_id=profile.id)
        self._flavors.callback(admin.delete_flavor, flavor)
        return flavor.id

    def _make(self, web):
        self._tenants['steady'].create(web)
        self._add_vip(web)
        self._check(web)

    def _add_vip(self, web):
        if web.vip not in self._with_vip:
            members.add_vip(self._lab, web.vip, topology.MEMBERS)
            self._with_vip.append(web.vip)

    def _check(self, web, tenant='steady'):
        self._tenants[tenant].check(
            web, None if web.flavor else topology.NODES)

    # One case

    def run(self, victim, strike):
        """One fault. Returns its Result."""
        result = Result(victim.name, strike, self._random.uniform(
            0, _FIRST_S), dict.fromkeys(STEPS, '—'))
        new = steps.Web('create', topology.MEMBERS[2:])
        for tenant in self._tenants.values():
            tenant.fault_s = strikes.STRIKES[strike]
        struck = strikes.Strike(self._lab, victim, strike)
        begin = time.monotonic()
        steady = self._webs['steady']
        with client.Load(self._lab, f'http://{steady.vip}/',
                         pause=_PAUSE_S) as load:
            threads = [threading.Thread(
                target=self._step, args=(result, name, new))
                for name in self._steps]
            for thread in threads:
                thread.start()
            time.sleep(result.after_s)
            with struck:
                time.sleep(strikes.STRIKES[strike] or _DEAD_S)
            for thread in threads:
                thread.join()
            result.cells['at rest'] = _said(self._check_rest)
        result.cells['traffic'] = _said(
            lambda: self._check_traffic(load, steady))
        result.seconds = time.monotonic() - begin
        self._put_right(new)
        return result

    def _step(self, result, name, new):
        web = new if name == 'create' else self._webs[name]
        tenant = self._tenants[name]

        def do():
            if name == 'create':
                tenant.create(web)
                self._add_vip(web)
            elif name == 'member':
                tenant.toggle_member(web, topology.MEMBERS[3])
            elif name == 'delete':
                tenant.delete(web)
                tenant.check_gone(web)
                return
            else:
                tenant.fail_over(web)
            self._check(web, name)
        result.cells[name] = _said(do)

    def _check_rest(self):
        """Nothing is left to be done or taken back anywhere."""
        conf = options.load(config_files=[str(
            octavia.provider_configuration(self._lab))])
        with namespaces.inside(self._lab, paths.CONTROL):
            store = queries.Store(schema.context_manager(conf))
            try:
                processes.wait_for(lambda: f'rest: {_unrest(store)}',
                                   lambda: not _unrest(store),
                                   steps.LIMIT_S, 0.5)
            except paths.LabError as error:
                raise steps.Wrong(str(error)) from None
            wanted = {}
            documents = {row.id: row.document
                         for row in store.load_balancers.select()}
            for row in store.placements.select():
                wanted.setdefault(row.host, set()).add(
                    documents[row.load_balancer_id]['vip_address'])
        for host in topology.NODES:
            services = set(steps.services(self._lab, host))
            if services != wanted.get(host, set()):
                raise steps.Wrong(f'{host} has {sorted(services)}, and should '
                                  f'have {sorted(wanted.get(host, set()))}')

    @staticmethod
    def _check_traffic(load, steady):
        strangers = load.answers.count.keys() - set(steady.hosts)
        if strangers:
            raise steps.Wrong(f'{strangers} answered')
        if load.answers.failures:
            raise steps.Wrong(
                f'{len(load.answers.failures)} of {load.answers.total} '
                f'requests failed: {load.answers.failures[0]}')
        if load.answers.total < 10:
            raise steps.Wrong('there was hardly any')

    def _put_right(self, new):
        """What the next case needs, whatever this one has left."""
        if 'delete' in self._steps:
            self._webs['delete'] = new
        if new.vip is None:
            self._make(new)


def _unrest(store):
    """What is not done yet, as a text; empty: nothing."""
    pending = [row.id for row in store.load_balancers.select()
               if row.pending or row.deleted or row.removed
               or row.unconfirmed]
    leaving = [(row.load_balancer_id, row.host)
               for row in store.placements.select()
               if row.removed_generation is not None]
    behind = [row.load_balancer_id for row in store.placements.select()
              if row.error]
    texts = [f'{what}: {ids}' for what, ids in (
        ('pending', pending), ('leaving', leaving), ('failing', behind))
        if ids]
    return '; '.join(texts)


def _said(function):
    try:
        function()
    except Exception as error:
        return str(error) or type(error).__name__
    return 'ok'


COLUMNS = (*STEPS, 'traffic', 'at rest')


def header():
    names = ('process', 'fault', *COLUMNS, 's')
    return (f'| {" | ".join(names)} |\n'
            f'|{"|".join("---" for _ in names)}|')


def line(result):
    cells = [result.cells.get(name, '—').replace('|', '/').replace('\n', ' ')
             for name in COLUMNS]
    return '| {} |'.format(' | '.join((
        result.process, result.fault, *cells, f'{result.seconds:.0f}')))

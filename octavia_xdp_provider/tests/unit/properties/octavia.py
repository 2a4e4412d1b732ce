# SPDX-License-Identifier: Apache-2.0
"""Octavia: its API before the real driver, and what it has committed.

Beyond FakeOctavia it calls the driver inside a transaction that may last, be
committed or rolled back, and refuses changes of what is PENDING. Statuses of
a load balancer with an open transaction wait for its end, as for the lock on
its row.
"""

import copy

from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit.controller import base

_FAILURES = (exceptions.DriverError, exceptions.Conflict,
             exceptions.UnsupportedOptionError)


class Octavia(base.FakeOctavia):
    """:ivar wrong: what nobody should have sent it, texts."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self._open = {}     # id → function that commits
        self._made = {}     # id → VIP, of creations that are open
        self._blocked = []  # messages that wait for an open transaction
        self.answers = True
        self.wrong = []

    # The API

    def can_change(self, key):
        return (key not in self._open and self.trees.get(key, {}).get(
            ('loadbalancer', key)) in ('ACTIVE', 'ERROR'))

    def create(self, call, balancer):
        """A load balancer with all below it: data_models.LoadBalancer."""
        document = spec.document(balancer.loadbalancer_id,
                                 translate.load_balancer_tree(balancer))
        taken = self._within(document['id'], lambda: call(balancer),
                             lambda: self.commit(document))
        if taken:
            self._made[document['id']] = document['vip_address']
        return taken

    def change(self, key, call, edit, pending, deleted=()):
        """Any change of a load balancer.

        :param edit: makes it in a document.
        :param pending, deleted: objects that become PENDING_UPDATE and
            PENDING_DELETE, beside the load balancer.
        """
        document = copy.deepcopy(self.documents[key])
        edit(document)
        return self._within(key, call, lambda: self.commit(
            document, {('loadbalancer', key), *pending}, deleted))

    def _within(self, key, call, commit):
        """Whether the driver did not fail; its transaction is open then."""
        try:
            call()
        except _FAILURES:
            return False
        self._open[key] = commit
        return True

    @property
    def vips(self):
        """Addresses that have a port in Neutron, which gives none out twice.
        """
        return {document['vip_address'] for document
                in self.documents.values()} | set(self._made.values())

    @property
    def transactions(self):
        return sorted(self._open)

    def end(self, key, commits):
        """A transaction ends."""
        commit = self._open.pop(key)
        self._made.pop(key, None)
        if commits:
            commit()
        blocked, self._blocked = self._blocked, []
        for message in blocked:
            if not self._waits(message):
                self._apply(message)

    def _touch(self, key):
        # To the second, as in the real one's database.
        self.updated_at[key] = str(int(self._clock.database_time()))

    # What the controller says

    def set_statuses(self, message):
        self._check()
        if self._waits(message):
            raise errors.OctaviaUnavailable('no answer in time')
        self._apply(message)
        if not self.answers:
            raise errors.OctaviaUnavailable('no answer in time')

    def _waits(self, message):
        objects = {entry['id'] for entries in message.values()
                   for entry in entries}
        if not any(objects & {name for _, name in self.trees.get(key, {})}
                   for key in self._open):
            return False
        self._blocked.append(message)
        return True

    def _apply(self, message):
        self._judge(message)
        super().set_statuses(message)

    def _judge(self, message):
        for plural, entries in message.items():
            for entry in entries:
                self._judge_one(base._KINDS[plural], entry)

    def _judge_one(self, kind, entry):
        one = kind, entry['id']
        found = [(key, tree[one]) for key, tree in self.trees.items()
                 if one in tree]
        status = entry.get('provisioning_status')
        for key, held in found:
            is_dying = held == 'PENDING_DELETE'
            # What is below one that is deleted goes with it, and counts
            # against its project's quota until it is DELETED itself.
            may_go = is_dying or one not in spec.objects(self.alive(key))
            if status == 'DELETED' and not may_go:
                self.wrong.append(f'DELETED of {kind} {entry["id"]}, {held}')
            if status == 'ACTIVE' and is_dying:
                self.wrong.append(f'ACTIVE of {kind} {entry["id"]}, {held}')

    def _set(self, kind, entry):
        super()._set(kind, entry)
        for key, tree in self.trees.items():
            # Rows below one that is deleted go with it.
            for one in tree.keys() - spec.objects(self.documents[key]):
                del tree[one]

    # A backup

    def backup(self):
        return copy.deepcopy((self.documents, self.trees, self.updated_at,
                              self.statuses))

    def restore(self, backup):
        self._open.clear()
        self._made.clear()
        self._blocked.clear()
        (self.documents, self.trees, self.updated_at,
         self.statuses) = copy.deepcopy(backup)

    def alive(self, key):
        """A load balancer's document without what is being deleted."""
        dying = {one for one, status in self.trees[key].items()
                 if status == 'PENDING_DELETE'}
        return base.comparison.without(self.documents[key], dying)

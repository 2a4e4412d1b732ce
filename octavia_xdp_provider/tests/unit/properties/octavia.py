# SPDX-License-Identifier: Apache-2.0
"""Octavia: its API in front of the real driver, and its database.

Unlike FakeOctavia it calls the driver inside a transaction that may last, be
committed or rolled back, and refuses changes of PENDING objects. Statuses of a
load balancer with an open transaction wait for its end, as for the lock on its
row.
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
    """:ivar wrong: descriptions of statuses that are never allowed."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self._open = {}     # id → function that commits
        self._made = {}     # id → VIP, of creations that are open
        self._blocked = []  # messages waiting for an open transaction
        self.answers = True
        self.wrong = []

    # The API

    def can_change(self, key):
        return (key not in self._open and self.trees.get(key, {}).get(
            ('loadbalancer', key)) in ('ACTIVE', 'ERROR'))

    def create(self, call, balancer):
        """Create a load balancer with all its objects.

        :param balancer: data_models.LoadBalancer.
        """
        document = spec.document(balancer.loadbalancer_id,
                                 translate.load_balancer_tree(balancer))
        taken = self._within(document['id'], lambda: call(balancer),
                             lambda: self.commit(document))
        if taken:
            self._made[document['id']] = document['vip_address']
        return taken

    def change(self, key, call, edit, pending, deleted=()):
        """Change a load balancer.

        :param edit: applies the change to a document.
        :param pending, deleted: objects that become PENDING_UPDATE and
            PENDING_DELETE, besides the load balancer.
        """
        document = copy.deepcopy(self.documents[key])
        edit(document)
        return self._within(key, call, lambda: self.commit(
            document, {('loadbalancer', key), *pending}, deleted))

    def _within(self, key, call, commit):
        """Call the driver; return whether it succeeded. If so, the transaction
        stays open."""
        try:
            call()
        except _FAILURES:
            return False
        self._open[key] = commit
        return True

    @property
    def vips(self):
        """Addresses with a port in Neutron, which are unique."""
        return {document['vip_address'] for document
                in self.documents.values()} | set(self._made.values())

    @property
    def transactions(self):
        return sorted(self._open)

    def end(self, key, commits):
        """End a transaction."""
        commit = self._open.pop(key)
        self._made.pop(key, None)
        if commits:
            commit()
        blocked, self._blocked = self._blocked, []
        for message in blocked:
            if not self._waits(message):
                self._apply(message)

    def _touch(self, key):
        # In seconds, as in Octavia's database.
        self.updated_at[key] = str(int(self._clock.database_time()))

    # Statuses from the controller

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
        self._check_message(message)
        super().set_statuses(message)

    def _check_message(self, message):
        for plural, entries in message.items():
            for entry in entries:
                self._check_status(base._KINDS[plural], entry)

    def _check_status(self, kind, entry):
        name = kind, entry['id']
        held_by = [(key, tree[name]) for key, tree in self.trees.items()
                 if name in tree]
        status = entry.get('provisioning_status')
        for key, held in held_by:
            is_dying = held == 'PENDING_DELETE'
            # Objects below a deleted one go with it, and count against the
            # project's quota until they are DELETED themselves.
            may_go = is_dying or name not in spec.objects(self.alive(key))
            if status == 'DELETED' and not may_go:
                self.wrong.append(f'DELETED of {kind} {entry["id"]}, {held}')
            if status == 'ACTIVE' and is_dying:
                self.wrong.append(f'ACTIVE of {kind} {entry["id"]}, {held}')

    def _set(self, kind, entry):
        super()._set(kind, entry)
        for key, tree in self.trees.items():
            # Rows below a deleted one go with it.
            for name in tree.keys() - spec.objects(self.documents[key]):
                del tree[name]

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
        """Return a load balancer's document without objects that are being
        deleted."""
        dying = {name for name, status in self.trees[key].items()
                 if status == 'PENDING_DELETE'}
        return base.comparison.without(self.documents[key], dying)

# SPDX-License-Identifier: Apache-2.0
"""The command that compares the provider's load balancers with Octavia's."""

import argparse
from typing import Any

from oslo_utils import uuidutils

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import resync
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors as octavia_errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import waiting

# Load balancer id → kind of the difference, and what differs.
Differences = dict[str, tuple[str, Any]]

# Exit status if some differences were not repaired.
DRIFT = 2

UNKNOWN = 'not held here'
DELETING = 'not held here, and Octavia deletes it'
MISSING = 'not in Octavia'
PENDING = 'Octavia waits for it'
DIFFERENT = 'differs'

_REPAIR = {UNKNOWN: 'is taken over', DELETING: 'its deletion is confirmed',
           PENDING: 'is looked at', DIFFERENT: 'is looked at'}


class Sync(command.List):
    """Compare load balancers with Octavia's, and repair differences.

    Without --apply and --remove nothing is changed; the exit status is 2 if
    something differs. The controllers do the same as --apply by themselves
    when they next read Octavia's list. They remove load balancers that
    Octavia lacks only after a time, and only a few at once; --remove removes
    all of them now. --project selects only load balancers that are held here.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--load-balancer', action='append',
                            metavar='LOAD_BALANCER',
                            help='only this load balancer, by id or by its '
                                 'name in the provider; may be repeated')
        names.add_filters(parser)
        parser.add_argument('--deep', action='store_true',
                            help='compare the documents of all load '
                                 'balancers, not only of those that changed '
                                 'lately')
        parser.add_argument('--apply', action='store_true',
                            help="repair differences as in Octavia's database")
        parser.add_argument('--remove', action='store_true',
                            help='remove load balancers that Octavia lacks')
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._unrepaired = 0
        return super().run(parsed_args) or (DRIFT if self._unrepaired else 0)

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        self._store, self._octavia = self.store(), client.Octavia(self.conf)
        self._resync = resync.Resync(self.conf, self._store, self._octavia,
                                     lambda: None)
        try:
            differences = self._find_differences(arguments)
            if arguments.apply:
                self._apply(differences)
            if arguments.remove:
                self._remove(differences)
        except octavia_errors.OctaviaUnavailable as error:
            raise command.CommandError(
                f'Octavia is unavailable, nothing was compared: {error}'
            ) from error
        rows = []
        for key, (kind, detail) in sorted(differences.items()):
            repaired = self._describe_repair(kind, arguments)
            self._unrepaired += not repaired
            rows.append((key, kind, detail, repaired))
        return ('load_balancer', 'drift', 'detail', 'repaired'), rows

    def _find_differences(self, arguments: argparse.Namespace) -> Differences:
        """Return {id: (kind of drift, detail)}."""
        drift = self._resync.look()
        selected = self._select(arguments)
        differences: Differences = {}
        for kind, keys in ((UNKNOWN, drift.unknown),
                           (DELETING, drift.deleting),
                           (MISSING, drift.missing),
                           (PENDING, drift.pending)):
            differences.update((key, (kind, '')) for key in keys)
        compared = set(drift.changed) - differences.keys()
        if arguments.deep:
            compared = {row.id for row in self._store.load_balancers.select()
                        if not row.deleted and row.pending is None
                        } - differences.keys()
        if selected is not None:
            differences = {key: difference for key, difference
                           in differences.items() if key in selected}
            compared &= selected
        with waiting.progress_bar(self.app, len(compared), 'compared') as bar:
            for key in sorted(compared):
                fields = self._compare(key)
                if fields:
                    differences[key] = DIFFERENT, '; '.join(fields)
                bar.update()
        return differences

    def _select(self, arguments: argparse.Namespace) -> Any:
        """Return the ids of the selected load balancers; None means all."""
        filters = []
        if arguments.load_balancer:
            filters.append(set(map(self._id, arguments.load_balancer)))
        if arguments.node:
            filters.append(set(self._store.placements.remaining(
                arguments.node)))
        if arguments.project:
            filters.append({
                row.id for row in self._store.load_balancers.select()
                if row.document.get('project_id') == arguments.project})
        return set.intersection(*filters) if filters else None

    def _id(self, id_or_name: str) -> str:
        # An id need not be in the database: Octavia may have it.
        if uuidutils.is_uuid_like(id_or_name):
            return id_or_name
        return names.find_load_balancer(self._store, id_or_name).id

    def _compare(self, key: str) -> list[str]:
        """Return texts of the fields that differ."""
        row = self._store.load_balancers.get(key)
        if row is None or row.deleted or row.pending is not None:
            return []
        try:
            octavia_document = self._octavia.document(key)
        except errors.Refused as refused:
            return [refused.for_operator]
        if octavia_document is None:
            return []  # It was deleted after it was listed.
        return spec.differences(row.document, spec.as_committed(
            row.document, octavia_document))

    def _apply(self, differences: Differences) -> None:
        """Queue the repairs for the controllers' workers."""
        queued = [key for key, (kind, _) in differences.items()
                  if kind in (PENDING, DIFFERENT)]
        self._store.sent_statuses.note_listed(dict.fromkeys(queued, ''))
        deleting = [key for key, (kind, _) in differences.items()
                    if kind == DELETING]
        if deleting:
            self._store.sent_statuses.bury(
                deleting, self.conf.controller.confirm_timeout)
        for key, (kind, _) in differences.items():
            if kind == UNKNOWN:
                self._resync.adopt(key)

    def _remove(self, differences: Differences) -> None:
        for key, (kind, _) in differences.items():
            # Check each again: the list may have been incomplete.
            if (kind == MISSING
                    and self._octavia.provisioning_status(key) is None):
                self._store.load_balancers.delete(key)

    @staticmethod
    def _describe_repair(kind: str, arguments: argparse.Namespace) -> str:
        if kind == MISSING:
            return 'is removed' if arguments.remove else ''
        return _REPAIR[kind] if arguments.apply else ''

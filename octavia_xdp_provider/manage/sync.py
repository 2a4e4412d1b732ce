# SPDX-License-Identifier: Apache-2.0
"""The command that compares what is held with what Octavia has."""

from oslo_utils import uuidutils

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import resync
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors as octavia_errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import waiting

# Exit status where something differs, and was not repaired.
DRIFT = 2

UNKNOWN = 'not held here'
DELETING = 'not held here, and Octavia deletes it'
MISSING = 'not in Octavia'
PENDING = 'Octavia waits for it'
DIFFERENT = 'differs'

_REPAIRED = {UNKNOWN: 'is taken over', DELETING: 'its deletion is confirmed',
           PENDING: 'is looked at', DIFFERENT: 'is looked at'}


class Sync(command.List):
    """Compare with Octavia, and repair what differs.

    Without --apply and --remove nothing is changed; the exit status is 2 if
    something differs. Controllers do by themselves what --apply does, with
    the next look at Octavia's list. They remove what Octavia lacks only after
    a time, and only a few at once: --remove is a person's word for all.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--load-balancer', action='append',
                            metavar='LOAD_BALANCER',
                            help='look at this one only, by id or by the name '
                                 'that is held; may be repeated')
        parser.add_argument('--node', metavar='HOST',
                            help='look at load balancers on this node only')
        parser.add_argument('--project', metavar='ID',
                            help='look at load balancers of this project '
                                 'only, of those that are held')
        parser.add_argument('--deep', action='store_true',
                            help='compare the documents of all, not only of '
                                 'those that changed lately')
        parser.add_argument('--apply', action='store_true',
                            help='take over what Octavia has')
        parser.add_argument('--remove', action='store_true',
                            help='remove what Octavia lacks')
        return parser

    def run(self, parsed_args):
        self._left = 0
        return super().run(parsed_args) or (DRIFT if self._left else 0)

    def take_action(self, arguments):
        self._store, self._octavia = self.store(), client.Octavia(self.conf)
        self._resync = resync.Resync(self.conf, self._store, self._octavia,
                                     lambda: None)
        try:
            found = self._found(arguments)
            if arguments.apply:
                self._apply(found)
            if arguments.remove:
                self._remove(found)
        except octavia_errors.OctaviaUnavailable as error:
            raise command.NotDone(
                f'Octavia cannot be asked, nothing is known: {error}'
            ) from error
        rows = []
        for key, (kind, detail) in sorted(found.items()):
            repaired = self._repaired(kind, arguments)
            self._left += not repaired
            rows.append((key, kind, detail, repaired))
        return ('load_balancer', 'drift', 'detail', 'repaired'), rows

    def _found(self, arguments):
        """Id → (kind of drift, detail)."""
        drift = self._resync.look()
        only = self._only(arguments)
        found = {}
        for kind, keys in ((UNKNOWN, drift.unknown),
                           (DELETING, drift.deleting),
                           (MISSING, drift.missing),
                           (PENDING, drift.pending)):
            found.update((key, (kind, '')) for key in keys)
        compared = set(drift.changed) - found.keys()
        if arguments.deep:
            compared = {row.id for row in self._store.load_balancers()
                        if not row.deleted and row.pending is None
                        } - found.keys()
        if only is not None:
            found = {key: one for key, one in found.items() if key in only}
            compared &= only
        with waiting.bar(self.app, len(compared), 'compared') as shown:
            for key in sorted(compared):
                differences = self._differences(key)
                if differences:
                    found[key] = DIFFERENT, '; '.join(differences)
                shown.update()
        return found

    def _only(self, arguments):
        """Ids of load balancers to look at, or None: all."""
        filters = []
        if arguments.load_balancer:
            filters.append(set(map(self._id, arguments.load_balancer)))
        if arguments.node:
            filters.append(set(self._store.remaining(arguments.node)))
        if arguments.project:
            filters.append({
                row.id for row in self._store.load_balancers()
                if row.document.get('project_id') == arguments.project})
        return set.intersection(*filters) if filters else None

    def _id(self, word):
        """Also of what is not held here: Octavia may have it."""
        if uuidutils.is_uuid_like(word):
            return word
        return names.load_balancer(self._store, word).id

    def _differences(self, key):
        row = self._store.load_balancer(key)
        if row is None or row.deleted or row.pending is not None:
            return []
        try:
            theirs = self._octavia.document(key)
        except errors.Refused as refused:
            return [refused.for_operator]
        if theirs is None:
            return []  # deleted since the list
        return spec.differences(row.document,
                                spec.as_committed(row.document, theirs))

    def _apply(self, found):
        """Leave it to the controllers' workers, as they do it."""
        again = [key for key, (kind, _) in found.items()
                 if kind in (PENDING, DIFFERENT)]
        self._store.note_listed(dict.fromkeys(again, ''))
        deleting = [key for key, (kind, _) in found.items()
                    if kind == DELETING]
        if deleting:
            self._store.bury(deleting, self.conf.controller.confirm_timeout)
        for key, (kind, _) in found.items():
            if kind == UNKNOWN:
                self._resync.adopt(key)

    def _remove(self, found):
        for key, (kind, _) in found.items():
            # The list may have been wrong.
            if (kind == MISSING
                    and self._octavia.provisioning_status(key) is None):
                self._store.delete(key)

    @staticmethod
    def _repaired(kind, arguments):
        if kind == MISSING:
            return 'is removed' if arguments.remove else ''
        return _REPAIRED[kind] if arguments.apply else ''

# SPDX-License-Identifier: Apache-2.0
"""Step 3 of a pass: write the checks files for the health checker.

Each load balancer has its own file, which is rewritten when its plan changes.
Checks of services that are left unchanged stay in the files: the tables list
the keys of the checks and the files their definitions, so an agent that was
started after the last good plan keeps them too.
"""

from collections.abc import Set
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.agent import files as agent_files
from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import probes as agent_probes
from octavia_xdp_provider.health import checks_directory
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.node import run_directory

LOG = logging.getLogger(__name__)


class ChecksWriter:
    """Writes checks files. Used by the worker's thread only."""

    def __init__(self, files: run_directory.RunDirectory,
                 plans: agent_plans.Plans, probes: agent_probes.Probes | None,
                 errors: agent_files.FileErrors) -> None:
        self._directory = checks_directory.ChecksDirectory(files.checks)
        self._plans = plans
        self._probes = probes
        self._errors = errors
        # Ids whose files do not match their plans.
        self._unwritten: set[str] = set()
        # Id without a plan → `kept` of its file.
        self._left: dict[str, frozenset[str]] = {}
        self._marks: dict[str, set[int]] = {}  # id → probe marks in its file
        self._made = False

    def write(self, changed: set[str], kept: frozenset[str],
              partly: Set[str] = frozenset()) -> None:
        """Update the files to match the plans.

        :param changed: ids whose plans have changed or are gone.
        :param kept: keys (str) of the checks of services that are left
            unchanged.
        :param partly: ids of planned load balancers with such services.
        """
        if self._probes:
            self._probes.set()
        self._unwritten |= changed | partly
        written = self._errors.write(
            'checks', lambda: self._write_files(kept, partly))
        if written:
            LOG.info('Checks of %s load balancers written.', written)
        if self._probes and written is not None:
            self._probes.written(set().union(*self._marks.values()))

    def _write_files(self, kept: frozenset[str], partly: Set[str]) -> int:
        """Return how many files have changed."""
        if not self._made:
            self._directory.make()
            self._made = True
        present, foreign = self._directory.look()
        planned = self._plans.plans.keys()
        unplanned = present - planned
        due = (self._unwritten | foreign | planned - present) & planned
        number = 0
        for name in sorted(unplanned):
            if name in foreign or self._left.get(name) != kept:
                number += self._reduce(name, self._select(name, kept))
                self._left[name] = kept
        self._left = {name: self._left[name] for name in unplanned}
        for name in sorted(due):
            document = self._plans.file(name)
            if name in partly and name in present:
                document = _merge(document, self._select(name, kept))
            number += self._directory.write(name, document)
            self._note_marks(name, document)
            # A file with kept checks does not match its plan yet.
            if name not in partly:
                self._unwritten.discard(name)
        self._unwritten &= planned
        for name in self._marks.keys() - planned - unplanned:
            del self._marks[name]
        return number

    def _select(self, name: str, kept: frozenset[str]) -> dict[str, Any]:
        """Return the part of a file that determines the states of keys."""
        if not kept:
            return {}
        try:
            return checks_file.select(self._directory.load(name), kept)
        except (OSError, checks_file.ChecksFileError) as error:
            LOG.error('Members of unchanged services of load balancer %s are '
                      'no longer probed: their checks file cannot be used '
                      '(%s).', name, error)
            return {}

    def _reduce(self, name: str, part: dict[str, Any]) -> int:
        """Reduce the file of a load balancer without a plan to ``part``."""
        if not part.get('checks'):
            self._directory.remove(name)
            self._marks.pop(name, None)
            return 1
        document = {'version': checks_file.VERSION, **{
            key: value for key, value in part.items()
            if value or key == 'checks'}}
        self._note_marks(name, document)
        return self._directory.write(name, document)

    def _note_marks(self, name: str, document: dict[str, Any]) -> None:
        if self._probes:
            self._marks[name] = {check['mark'] for check
                                 in document['checks'] if 'mark' in check}


def _merge(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Merge a planned document with the checks that have to stay."""
    kept = {
        name: [*{entry.get('key', entry.get('name')): entry for entry in (
            *part.get(name, ()), *document.get(name, ()))}.values()]
        for name in ('checks', 'conditions', 'groups')}
    planned = {check['key'] for check in document['checks']}
    # The plan decides whether the member of a planned check is moving.
    kept_patience = [
        {**entry, 'checks': checks} for entry in part.get('patience', ())
        if (checks := [key for key in entry['checks'] if key not in planned])]
    return checks_file.build_document((), kept={
        **kept, 'patience': [*document.get('patience', ()), *kept_patience]})

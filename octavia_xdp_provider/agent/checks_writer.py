# SPDX-License-Identifier: Apache-2.0
"""Step 3 of a pass: what the health checker is asked for.

A load balancer has a file of its own, written when its plan is another one.
What services that stay as they are look at stays in the files: the tables
name the checks and the files hold them, so that an agent that was started
after the last good plan keeps them as well.
"""

from oslo_log import log as logging

from octavia_xdp_provider.common import checks_directory
from octavia_xdp_provider.common import checks_file

LOG = logging.getLogger(__name__)


class ChecksWriter:
    """Belongs to the worker's thread.

    :param plans: plans.Plans.
    :param probes: probes.Probes, or None.
    :param errors: files.FileErrors.
    """

    def __init__(self, files, plans, probes, errors):
        self._directory = checks_directory.ChecksDirectory(files.checks)
        self._plans = plans
        self._probes = probes
        self._errors = errors
        self._unwritten = set()  # ids whose files are not as planned
        self._left = {}          # id that is not planned → `kept` of its file
        self._marks = {}         # id → marks of its file
        self._made = False

    def write(self, changed, kept, partly=frozenset()):
        """Make the files as planned.

        :param changed: ids whose plans are others, or gone.
        :param kept: keys, as texts, that services look at which stay as
            they are.
        :param partly: ids of planned load balancers that have such services.
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

    def _write_files(self, kept, partly):
        """:returns: how many files are others now."""
        if not self._made:
            self._directory.make()
            self._made = True
        there, foreign = self._directory.look()
        planned = self._plans.plans.keys()
        left = there - planned
        due = (self._unwritten | foreign | planned - there) & planned
        number = 0
        for name in sorted(left):
            if name in foreign or self._left.get(name) != kept:
                number += self._keep(name, self._select(name, kept))
                self._left[name] = kept
        self._left = {name: self._left[name] for name in left}
        for name in sorted(due):
            document = self._plans.file(name)
            if name in partly and name in there:
                document = _joined(document, self._select(name, kept))
            number += self._directory.write(name, document)
            self._note_marks(name, document)
            # As planned, once no service stays as it is.
            if name not in partly:
                self._unwritten.discard(name)
        self._unwritten &= planned
        for name in self._marks.keys() - planned - left:
            del self._marks[name]
        return number

    def _select(self, name, kept):
        """The part of a file that decides the states of some keys."""
        if not kept:
            return {}
        try:
            return checks_file.select(self._directory.load(name), kept)
        except (OSError, checks_file.ChecksFileError) as error:
            LOG.error('Members of services that stay as they are are no '
                      'longer probed: the checks of load balancer %s cannot '
                      'be used (%s).', name, error)
            return {}

    def _keep(self, name, part):
        """What is left of a load balancer that is not planned."""
        if not part.get('checks'):
            self._directory.remove(name)
            self._marks.pop(name, None)
            return 1
        document = {'version': checks_file.VERSION, **{
            key: value for key, value in part.items()
            if value or key == 'checks'}}
        self._note_marks(name, document)
        return self._directory.write(name, document)

    def _note_marks(self, name, document):
        if self._probes:
            self._marks[name] = {check['mark'] for check
                                 in document['checks'] if 'mark' in check}


def _joined(document, part):
    """A planned document, and the checks that are to stay besides."""
    kept = {
        name: [*{entry.get('key', entry.get('name')): entry for entry in (
            *part.get(name, ()), *document.get(name, ()))}.values()]
        for name in ('checks', 'conditions', 'groups')}
    planned = {check['key'] for check in document['checks']}
    # Of a check that is planned, the plan says whether its member moves.
    stays = [{**one, 'checks': checks} for one in part.get('patience', ())
             if (checks := [key for key in one['checks']
                            if key not in planned])]
    return checks_file.build_document((), kept={
        **kept, 'patience': [*document.get('patience', ()), *stays]})

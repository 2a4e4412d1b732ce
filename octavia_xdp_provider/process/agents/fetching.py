# SPDX-License-Identifier: Apache-2.0
"""Fetches the wanted state of an LB node or a hypervisor.

Usually the agent asks the controller for the changes since its last fetch, or
the controller sends them with a notification, as a page of the same form. A
complete comparison, by ids and generations only, is made after a start, every
few minutes, and when the controller says that a difference is not enough.
"""

from collections.abc import Iterator
import time
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.process.agents import wanted as wanted_state

LOG = logging.getLogger(__name__)

# Between two complete comparisons.
COMPARE_S = 300.0

# Name of wanted.MARKS → ids.
Marks = dict[str, set[str]]


class Shapes(NamedTuple):
    """Shapes of a controller's answers, and documents to request at once."""

    fetched: shape.Shape
    compared: shape.Shape
    entries: shape.Shape
    documents_page: int


NODES = Shapes(shape.Shape(messages.FetchAnswer),
               shape.Shape(messages.CompareAnswer),
               shape.Shape(list[messages.Entry]), messages.DOCUMENTS_PAGE)


class Fetcher:
    """Keeps the wanted state. Not thread-safe.

    :param controller: rpc.NodesClient, or an object with the same calls.
    :ivar wanted: wanted.Wanted, or None while it is not known.
    :ivar removed_as_of: generation of the last fetch that removed something
        or compared everything: the controller waits for its confirmation.
    """

    def __init__(self, controller: Any, host: str,
                 cache: wanted_state.Cache,
                 clock: Any = time.monotonic, shapes: Shapes = NODES
                 ) -> None:
        self._shapes = shapes
        self._controller = controller
        self._host = host
        self._cache = cache
        self._clock = clock
        self._compared: float | None = None
        self._unsaved: set[str] = set()
        self._complained = False
        self.removed_as_of = 0
        self.wanted = cache.load()

    def receive(self, since: Any, page: Any) -> list[str] | None:
        """Take a page that the controller has sent with a notification.

        It holds every change since a generation, including known ones.
        Messages may be lost, delayed or duplicated.

        :param since: that generation.
        :returns: ids in the page; None if the page cannot be used and a
            fetch is needed.
        :raises Refused: it is malformed; nothing has changed.
        """
        self._shapes.fetched.check(page, 'page')
        if (type(since) is not int or self.wanted is None
                or since > self.wanted.as_of or page['compare']
                or page['more'] is not None or self._has_to_compare()):
            return None
        if page['as_of'] <= self.wanted.as_of:
            return []  # delayed or duplicated
        held = dict(self.wanted.documents)
        marks = self.wanted.marks()
        mentioned: list[str] = []
        self._take_page(page, held, marks, mentioned)
        self._keep(page['as_of'], held, marks)
        if page['removed']:
            self.removed_as_of = page['as_of']
        return mentioned

    def _take_page(self, page: Any, held: dict[str, wanted_state.Entry],
                   marks: Marks, mentioned: list[str]) -> None:
        for entry in page['changed']:
            self.take(entry, held, marks)
            mentioned.append(entry['id'])
        for key in page['removed']:
            held.pop(key, None)

    def _has_to_compare(self) -> bool:
        return (self._compared is None
                or self._clock() - self._compared > COMPARE_S)

    def fetch(self) -> list[str]:
        """Fetch once; call ``save`` afterwards to persist the result.

        :returns: ids in the controller's answer.
        :raises Refused: an answer is malformed; nothing has changed.
        """
        since = self.wanted.as_of if self.wanted else 0
        held = dict(self.wanted.documents) if self.wanted else {}
        marks = (self.wanted or wanted_state.Wanted(0, {})).marks()
        mentioned: list[str] = []
        as_of, compare, removed = since, False, False
        for number, page in enumerate(self._pages(since)):
            if not number:
                as_of = page['as_of']
            compare |= page['compare']
            self._take_page(page, held, marks, mentioned)
            removed |= bool(page['removed'])
        if compare or self._has_to_compare():
            now = self._clock()
            as_of = self._compare(held, marks, max(as_of, since),
                                  mentioned)
            self._compared = now
            removed = True
        self._keep(max(as_of, since), held, marks)
        if removed:
            self.removed_as_of = max(as_of, since)
        return mentioned

    def look_at(self, page: Any) -> None:
        """Hook for subclasses that need more of a fetched page than its
        documents. The shape of the page has been checked.

        :raises Refused: the page is not used.
        """

    def take(self, entry: Any, held: dict[str, wanted_state.Entry],
             marks: Marks) -> None:
        """Add or replace a document."""
        held[entry['id']] = entry['generation'], entry['document']
        for name, ids in marks.items():
            (ids.add if entry.get(name) else ids.discard)(entry['id'])

    def _pages(self, since: int) -> Iterator[Any]:
        after = None
        while True:
            page = self._controller.fetch(self._host, since, after)
            self._shapes.fetched.check(page, 'fetch')
            self.look_at(page)
            yield page
            after = page['more']
            if after is None:
                return

    def _compare(self, held: dict[str, wanted_state.Entry],
                 marks: Marks, as_of: int, mentioned: list[str]
                 ) -> int:
        """Compare everything. Returns the generation of the result."""
        listed: dict[str, int] = {}
        after, first = None, None
        while True:
            page = self._controller.compare(self._host, after)
            self._shapes.compared.check(page, 'compare')
            first = int(page['as_of']) if first is None else first
            listed.update(page['generations'])
            after = page['more']
            if after is None:
                break
        missing = sorted(key for key, generation in listed.items()
                         if held.get(key, (None,))[0] != generation)
        for entry in self._documents(missing):
            self.take(entry, held, marks)
            mentioned.append(entry['id'])
        if first < as_of:
            # An empty or older database may add and change documents, but
            # documents that it lacks are not considered removed.
            self._log_older_database(first, as_of)
        else:
            self._complained = False
            for key in held.keys() - listed.keys():
                del held[key]
        return max(first, as_of)

    def _documents(self, ids: list[str]) -> Iterator[Any]:
        while ids:
            page = self._controller.documents(
                self._host, ids[:self._shapes.documents_page])
            self._shapes.entries.check(page, 'documents')
            if not page:
                # They have been removed from this node meanwhile.
                ids = ids[self._shapes.documents_page:]
                continue
            yield from page
            received = {entry['id'] for entry in page}
            ids = [key for key in ids if key not in received]

    def _keep(self, as_of: int, held: dict[str, wanted_state.Entry],
              marks: Marks) -> None:
        before = self.wanted.documents if self.wanted else {}
        changed = {key for key in held.keys() | before.keys()
                   if not _same(held.get(key), before.get(key))}
        if changed or self.wanted is None:
            self.wanted = wanted_state.Wanted(as_of, held, **{
                name: frozenset(ids & held.keys())
                for name, ids in marks.items()})
        else:
            # The same dictionary shows that there is nothing to apply.
            self.wanted = self.wanted._replace(as_of=as_of)
        self._unsaved |= changed

    def save(self) -> None:
        """Save the fetched state for a restart of the agent."""
        if self.wanted is not None:
            self._cache.save(self.wanted, self._unsaved)
            self._unsaved = set()

    def _log_older_database(self, theirs: int, ours: int) -> None:
        if not self._complained:
            LOG.error(
                'The controller\'s database is older (%s) than what it sent '
                'before (%s). Nothing is removed here until it has caught up; '
                'to accept it as it is, stop the agent, delete the '
                'directory "wanted" in its run directory and start it.',
                theirs, ours)
        self._complained = True


def _same(entry: wanted_state.Entry | None,
          other: wanted_state.Entry | None) -> bool:
    return entry is other or (entry is not None and other is not None
                              and entry[0] == other[0])

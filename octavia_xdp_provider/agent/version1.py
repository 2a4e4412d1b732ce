# SPDX-License-Identifier: Apache-2.0
"""The link in version 1.0 of the interface for nodes, for controllers of an
earlier release: everything, each time."""

from octavia_xdp_provider.common import wanted as wanted_state


class FetcherV1:
    """Takes the place of fetching.Fetcher."""

    def __init__(self, controller, host, cache):
        self._controller = controller
        self._host = host
        self._cache = cache
        self._unsaved = set()
        self.wanted = cache.load()
        self.removed_as_of = 0

    def receive(self, since, page):
        """Nobody sends nodes of this version a page: one has to ask."""

    def fetch(self):
        known = self.wanted.documents if self.wanted else {}
        answer = self._controller.fetch(self._host, {
            key: generation for key, (generation, _) in known.items()})
        held = {key: (generation, answer['documents'][key])
                if key in answer['documents'] else known[key]
                for key, generation in answer['generations'].items()}
        as_of = answer['as_of']
        if self.wanted is not None and as_of < self.wanted.as_of:
            # An older database: what it does not know stays.
            held = {**known, **held}
            as_of = self.wanted.as_of
        changed = {key for key in held.keys() | known.keys()
                   if held.get(key) is not known.get(key)}
        self.wanted = wanted_state.Wanted(
            as_of, held if changed or self.wanted is None else known)
        self._unsaved |= changed
        return []

    def save(self):
        if self.wanted is not None:
            self._cache.save(self.wanted, self._unsaved)
            self._unsaved = set()


class ReporterV1:
    """Takes the place of reports.Reporter."""

    def again(self, ids):
        """Everything is reported each time."""

    def has_news(self, facts):
        """Nobody knows what was reported before."""
        return True

    def send(self, controller, host, facts, has_other=None):
        """:param controller: rpc.NodesClientV1.

        :param has_other: no report of this version is long.
        """
        controller.report(host, {
            'as_of': facts.as_of,
            'synced': {key: {'generation': one['generation'],
                             'error': one['error']}
                       for key, one in facts.held.items()},
            'members': {key: one['members']
                        for key, one in facts.held.items()},
            'counters': facts.counters,
            'state': facts.state})

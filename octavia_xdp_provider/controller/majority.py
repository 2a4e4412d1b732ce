# SPDX-License-Identifier: Apache-2.0
"""Of what several nodes remember of a pool, what a node without state is told.

No node decides alone where another one could speak: a change is told that more
than half of all live nodes with the load balancer report, and what came before
it only as those tell it who agree so far. Ids that are none of the pool's are
left out. Of members that were removed nodes report the addresses, from which
no packet goes anywhere (datapath/lib/service/history.c).
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import json
import statistics
from typing import Any
from typing import NamedTuple

from octavia_xdp_provider.contracts import history


class Change(NamedTuple):
    """``age``: seconds. ``members``: weights by id. ``removed``: list of
    history.Removed."""

    age: int
    members: dict[str, int]
    slots: int
    removed: Sequence[history.Removed] = ()


def agreed(words: Sequence[Mapping[str, Sequence[tuple[Any, ...]]]],
           members: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """By id of the pool, history.AgedChange, the newest first.

    :param words: of each live node, by id of the pool: Change as tuples.
    :param members: of each pool, the ids of those that it has now.
    """
    room = history.WEIGHTS_MAX
    agreed_changes = {}
    for pool_id in sorted(set().union(*words) & members.keys()):
        changes = []
        for change in _of_pool([word.get(pool_id, ()) for word in words],
                               set(members[pool_id])):
            room -= history.weights_in({pool_id: [change]})
            if room < 0:
                break
            changes.append(change)
        if changes:
            agreed_changes[pool_id] = changes
    return agreed_changes


def _of_pool(words: list[Sequence[tuple[Any, ...]]], members: set[str]
             ) -> list[dict[str, Any]]:
    own = [_within(changes, members) for changes in words]
    agree, age, result = own, 0, []
    for number in range(history.CHANGES_MAX):
        names: dict[str, list[list[Change]]] = {}
        for changes in agree:
            if number < len(changes):
                names.setdefault(_name(changes[number]), []).append(changes)
        agree = max(names.values(), key=len, default=[])
        if 2 * len(agree) <= len(words):
            break
        # Nobody's clock makes one older than the one before it.
        age = max(age, int(statistics.median_low(
            changes[number][0] for changes in agree)))
        if age > history.AGE_MAX_S:
            break
        _, weights, slots, removed = agree[0][number]
        result.append({'members': weights, 'slots': slots, 'age': age,
                       **({'removed': list(removed)} if removed else {})})
    return result


def _within(changes: Sequence[tuple[Any, ...]], members: set[str]
            ) -> list[Change]:
    """The same without ids that are none of the pool's."""
    return [change._replace(members={
        key: weight for key, weight in change.members.items()
        if key in members}) for change in itertools.starmap(Change, changes)]


def _name(change: Change) -> str:
    return json.dumps(change[1:], sort_keys=True)

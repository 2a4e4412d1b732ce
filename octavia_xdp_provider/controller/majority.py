# SPDX-License-Identifier: Apache-2.0
"""Finds the history of a pool on which most nodes agree.

A node without state gets it. A change is part of it if more than half of all
live nodes with the load balancer report that change, and older changes only
count if they come from nodes that agree on all newer ones. So no single node
decides if there are others. Ids that do not belong to the pool are omitted.
Nodes report the addresses of removed members, to which no packet is sent
(datapath/lib/service/history.c).
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
    """Return pool id → list of history.AgedChange, the newest first.

    :param words: for each live node, pool id → Changes, as tuples.
    :param members: pool id → ids of its present members.
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
        # A change is at least as old as the next newer one, whatever clocks
        # show.
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
    """Return the changes without ids that do not belong to the pool."""
    return [change._replace(members={
        key: weight for key, weight in change.members.items()
        if key in members}) for change in itertools.starmap(Change, changes)]


def _name(change: Change) -> str:
    return json.dumps(change[1:], sort_keys=True)

# SPDX-License-Identifier: Apache-2.0
"""Compares two runs: changes of cases, and other differences."""

from collections.abc import Iterable
import dataclasses

from bench import errors
from bench import fingerprint
from bench.results import drift
from bench.results import model
from bench.results import verdict

# Key in the fingerprints of two runs whose rounds were measured in turn, with
# a value that no other run has.
IN_TURN = 'in_turn'


@dataclasses.dataclass(frozen=True)
class Comparison:
    """:ivar changes: of common cases, in the order of the run after.
    :ivar only_before: cases that the run after lacks; likewise only_after.
    :ivar differences: of the fingerprints, without the commit.
    :ivar warnings: reservations about the verdict.
    """

    before: model.Run
    after: model.Run
    in_turn: bool
    interest: verdict.Interest
    changes: list[verdict.Change]
    only_before: list[model.Case]
    only_after: list[model.Case]
    differences: list[fingerprint.Difference]
    warnings: list[str]

    @property
    def verdict(self) -> str:
        """The overall verdict; not "same" if a run lacks cases."""
        overall = verdict.overall(self.changes)
        if overall == verdict.SAME and (self.only_before or self.only_after):
            return verdict.UNKNOWN
        return overall

    @property
    def is_worse(self) -> bool:
        return any(change.direction == verdict.WORSE
                   for change in self.changes)


def compare(before: model.Run, after: model.Run, interest: verdict.Interest,
            known: Iterable[model.Run] = ()) -> Comparison:
    """:param known: runs that tell how much the machine drifts.
    :raises BenchError: the runs have no case in common.
    """
    first, second = _by_key(before), _by_key(after)
    both = [key for key in second if key in first]
    if not both:
        raise errors.BenchError(
            f'runs {before.id} ({before.suite}) and {after.id} '
            f'({after.suite}) have no case in common')
    token = before.fingerprint.get(IN_TURN)
    in_turn = bool(token) and token == after.fingerprint.get(IN_TURN)
    drifts = None if in_turn else drift.known(known)
    changes = verdict.compare([(first[key], second[key]) for key in both],
                              interest, drifts)
    differences = [
        difference for difference in fingerprint.differences(
            before.fingerprint, after.fingerprint)
        if difference.name not in ('commit', 'changes', 'library', IN_TURN)]
    return Comparison(
        before, after, in_turn, interest, changes,
        [case for key, case in first.items() if key not in second],
        [case for key, case in second.items() if key not in first],
        differences, list(_warnings(in_turn, differences)))


def _by_key(run):
    return {(case.software, case.name): case for case in run.cases}


def _warnings(in_turn, differences):
    machine = fingerprint.Importance.MACHINE
    if any(difference.importance == machine for difference in differences):
        yield ('measured on different machines or kernels: what changed need '
               'not be the commit')
    if not in_turn:
        yield ('rounds were not measured in turn: "compare --rounds N A B" '
               'does, and tells smaller differences')

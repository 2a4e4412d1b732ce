# SPDX-License-Identifier: Apache-2.0
"""Applies a change to a load balancer's document. Pure functions."""

from collections.abc import Callable
import dataclasses
from typing import Any
from typing import NamedTuple

from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import rows


class Prepared(NamedTuple):
    """The result of a change.

    ``of``: text of the former document, None if there was none. ``error``: why
    the change is refused; the other fields are meaningless then. ``unused``:
    addresses of new members to which LB nodes never send.
    """

    of: str | None
    before: spec.Document | None
    after: spec.Document | None
    text: str = ''
    error: Exception | None = None
    unused: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Making:
    """A change, and the policy for its members' addresses; None for any."""

    change: changes.Change
    policy: address_policy.AddressPolicy | None = None

    def creation(self) -> Prepared:
        return self._made(None, None, lambda before: spec.document(
            str(self.change['load_balancer_id']), self.change['fields']))

    def of(self, text: str) -> Prepared:
        """:param text: the document's."""
        return self._made(text, rows.parsed(text),
                          lambda before: changes.apply(before, self.change))

    def _made(self, of: str | None, before: spec.Document | None,
              make: Callable[[Any], spec.Document]) -> Prepared:
        try:
            after = make(before)
            validation.validate(after)
            unused = frozenset() if self.policy is None else (
                validation.check_new_members(before, after, self.policy))
            problem = rules.subnet_problem(after)
            if problem:
                raise errors.Refused('subnet_id', *problem)
        except (errors.Refused, errors.UnknownObject) as error:
            return Prepared(of, before, None, error=error)
        return Prepared(of, before, after, capacity.text_of(after),
                        unused=unused)

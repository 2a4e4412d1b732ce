# SPDX-License-Identifier: Apache-2.0
"""Changes of one load balancer's placements, and their reasons."""

from collections.abc import Mapping
import dataclasses
import enum


class Reason(enum.Enum):
    """Why a load balancer leaves a node."""

    DEAD = 'the node is dead'
    FAILING = 'the node failed to apply it'
    DISABLED = 'the node was taken out of service'
    DRAINED = 'the node is drained'
    REPLACED = 'a failover was requested'
    SURPLUS = 'enough other nodes have it'

    @property
    def is_failure(self) -> bool:
        """Whether nobody requested it, so that the removal budget counts it.
        """
        return self in (Reason.DEAD, Reason.FAILING)

    @property
    def is_out_of_service(self) -> bool:
        """Whether the operator takes the node out of service."""
        return self in (Reason.DISABLED, Reason.DRAINED)


@dataclasses.dataclass(frozen=True)
class Move:
    """Changes of one load balancer's placements.

    ``decided_on``: the hosts that it was on when this was decided.
    ``remove``: host → Reason. ``drain``: nodes that are to announce it as a
    route of last resort. ``withdraw``: nodes that are to withdraw it and keep
    their NAT flows. ``restore``: nodes that are to announce it normally again.
    ``again_in_s``: seconds until the next decision is due even without an
    event, or None.
    """

    load_balancer_id: str
    decided_on: frozenset[str]
    add: tuple[str, ...] = ()
    remove: Mapping[str, Reason] = dataclasses.field(default_factory=dict)
    drain: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    withdraw: tuple[str, ...] = ()
    again_in_s: float | None = None

    @property
    def changes_something(self) -> bool:
        return bool(self.add or self.remove or self.drain or self.withdraw
                    or self.restore)

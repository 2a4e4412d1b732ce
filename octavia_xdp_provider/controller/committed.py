# SPDX-License-Identifier: Apache-2.0
"""Tells whether Octavia has committed a change that its driver announced.

Octavia calls the driver inside a transaction that makes the load balancer
PENDING_*, and only a controller ends that status. So a PENDING_* status that
is visible means that the pending change was committed: after a rollback it is
not visible, and Octavia admits no other change until this one has ended.
"""

from collections.abc import Mapping
from typing import Any

from octavia_lib.common import constants as lib


def holds(pending: Mapping[str, Any], status: str | None) -> bool:
    """Return whether a pending change is committed.

    :param status: the load balancer's provisioning status, None if it is gone.
    """
    if pending['expected'] is None:
        return is_deleted(status)
    return status in (lib.PENDING_CREATE, lib.PENDING_UPDATE)


def is_deleted(status: str | None) -> bool:
    """Return whether Octavia deletes, or has deleted, a load balancer."""
    return status in (None, lib.PENDING_DELETE, lib.DELETED)

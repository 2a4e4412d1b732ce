# SPDX-License-Identifier: Apache-2.0
"""Whether Octavia has committed a change that its driver announced.

The driver is called inside a transaction that makes the load balancer
PENDING_*, and only a controller ends that: seen from outside, it is the
commit of the one change that is pending here. One that was rolled back is
never seen so, and Octavia admits no other until this one has ended.
"""

from octavia_lib.common import constants as lib


def holds(pending, status):
    """Whether a pending change is committed.

    :param status: the load balancer's provisioning status; None: it is gone.
    """
    if pending['expected'] is None:
        return is_deleted(status)
    return status in (lib.PENDING_CREATE, lib.PENDING_UPDATE)


def is_deleted(status):
    """Whether Octavia deletes a load balancer, or has done so."""
    return status in (None, lib.PENDING_DELETE, lib.DELETED)

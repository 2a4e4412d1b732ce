# SPDX-License-Identifier: Apache-2.0
"""Which projects may use a network: its owner, and those it is shared with.

A member names a subnet by its id, which anybody may know. Whoever may not
have a port on the network must not reach those of others there.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

# The target of an RBAC policy that is for all projects.
_EVERYBODY = '*'


class Access:
    """Of some networks, by id.

    :param networks: rows of Neutron's.
    :param shares: RBAC policies of those networks, as ``Neutron.shares``
        gives them.
    """

    def __init__(self, networks: Iterable[Mapping[str, Any]],
                 shares: Iterable[Mapping[str, Any]]) -> None:
        self._projects = {row['id']: {row.get('project_id')}
                          for row in networks}
        for row in shares:
            projects = self._projects.get(row['object_id'])
            if projects is not None:
                projects.add(row.get('target_project')
                             or row.get('target_tenant'))

    def has(self, project_id: str, network_id: str | None) -> bool:
        """Whether a project may use a network; no if it is not known."""
        projects = self._projects.get(network_id, set())
        return project_id in projects or _EVERYBODY in projects

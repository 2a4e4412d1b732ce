# SPDX-License-Identifier: Apache-2.0
"""Tells which projects may use a network: its owner, and by shares.

A member names a subnet by its id, which is no secret. A project that may not
have a port on the network must not reach others' ports there.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

# The target of an RBAC policy that is for all projects.
_EVERYBODY = '*'


class Access:
    """The projects that may use each of some networks.

    :param networks: rows of Neutron's API.
    :param shares: RBAC policies of those networks, see ``Neutron.shares``.
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
        """Return whether a project may use a network; False if unknown."""
        projects = self._projects.get(network_id, set())
        return project_id in projects or _EVERYBODY in projects

# SPDX-License-Identifier: Apache-2.0
"""Errors of everything that asks Neutron."""


class NeutronUnavailable(Exception):
    """Neutron does not answer or refuses; try again.

    ``maybe_done`` is as in calls of Octavia; what is only read is never.
    """

    def __init__(self, text: str = 'Neutron does not answer',
                 maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done

# SPDX-License-Identifier: Apache-2.0
"""Exceptions of calls to Neutron."""


class NeutronUnavailable(Exception):
    """Neutron does not answer or refuses; the caller should try again.

    ``maybe_done`` exists as in OctaviaUnavailable; reading changes nothing.
    """

    def __init__(self, text: str = 'Neutron does not answer',
                 maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done

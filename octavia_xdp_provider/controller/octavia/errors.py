# SPDX-License-Identifier: Apache-2.0
"""Errors of everything that asks Octavia, or sends it something."""


class OctaviaUnavailable(Exception):
    """Octavia does not answer or refuses; try again.

    ``maybe_done``: what was sent has not been answered, and Octavia may
    still do it.
    """

    def __init__(self, text: str = 'Octavia does not answer',
                 maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class Rejected(OctaviaUnavailable):
    """octavia-driver-agent has read a message and could not do all of it.

    ``object_id``: of the record at which it stopped; None: it does not say.
    """

    def __init__(self, text: str, object_id: str | None = None) -> None:
        super().__init__(text)
        self.object_id = object_id

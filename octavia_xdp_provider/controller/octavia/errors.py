# SPDX-License-Identifier: Apache-2.0
"""Exceptions of calls to Octavia."""


class OctaviaUnavailable(Exception):
    """Octavia does not answer or refuses; the caller should try again.

    ``maybe_done``: a message was sent without an answer, and Octavia may
    still execute it.
    """

    def __init__(self, text: str = 'Octavia does not answer',
                 maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class Rejected(OctaviaUnavailable):
    """octavia-driver-agent could not execute all of a message.

    ``object_id``: id of the record at which it stopped, or None if unknown.
    """

    def __init__(self, text: str, object_id: str | None = None) -> None:
        super().__init__(text)
        self.object_id = object_id

# SPDX-License-Identifier: Apache-2.0
"""Single requests of the client, with all of their answers."""

import dataclasses

from lab import processes
from lab.fabric import client


@dataclasses.dataclass
class Answer:
    """An answer; names of headers are in lower case."""

    status: int
    headers: dict
    body: str


def ask(lab, url, *options, timeout=20):
    """Send a request on a connection of its own, by curl with options.

    :raises LabError: there is no answer.
    """
    done = processes.run(
        lab, client.CLIENT,
        ['curl', '-sS', '-i', '-m', str(timeout), *options, url],
        timeout=timeout + 5)
    head, _, body = done.stdout.partition('\n\n')
    first, *lines = head.splitlines()
    return Answer(int(first.split()[1]), {
        name.lower(): value.strip() for name, _, value
        in (line.partition(':') for line in lines)}, body)


def shown(answer):
    """Return what a member's /headers shows of the request: name → value."""
    return {name: value.strip() for name, _, value
            in (line.partition(':') for line in answer.body.splitlines())}

# SPDX-License-Identifier: Apache-2.0
"""Makes a bed of namespaces in a guest, and keeps it until its input ends.

Input: a line of JSON, {"declaration", "run"}. Output: one with "error", or
"hosts" by name, each with "role", "interfaces" and "namespace" (its file).
"""

import dataclasses
import json
import pathlib
import sys

from bench import errors
from bench.beds import declaration
from bench.beds import namespaces
from bench.beds import reading
from bench.declarations import document


def main() -> None:
    given = json.loads(sys.stdin.readline())
    try:
        declared = reading.from_document(document.parse(
            json.dumps(given['declaration']), pathlib.Path('bed'),
            reading.SCHEMA), declaration.GUEST)
        with namespaces.Provider().build(declared, given['run']) as bed:
            _answer(hosts={name: {
                'role': host.role,
                'namespace': str(host.namespace),
                'interfaces': {key: dataclasses.asdict(end)
                               for key, end in host.interfaces.items()},
            } for name, host in bed.hosts.items()})
            sys.stdin.read()
    except errors.BenchError as error:
        _answer(error=str(error))


def _answer(**answer):
    print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""A round of a part of the product by itself: a process of its own, in
namespaces of its own that end with it.

    python -m bench.engine.alone KIND

What is asked for comes on standard input, what was found goes to standard
output, both as JSON; whatever else is printed on the way goes to standard
error.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

from bench import errors
from bench.engine import figures
from bench.engine import named
from bench.scenarios import alone
from bench.scenarios import model

CHECKOUT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Asked:
    """:ivar settings: all that the kind has.
    :ivar seconds: how long a measurement takes whose length is anybody's.
    """

    settings: dict[str, Any]
    seconds: float
    software: str


def run(measure: model.Measure, software: str) -> list[figures.Figure]:
    """:raises BenchError: it failed."""
    kind = alone.KINDS[measure.kind]
    if os.geteuid():
        raise errors.BenchError(f'{measure.kind} is measured as root: it '
                                'loads programs and makes namespaces')
    asked = Asked({**kind.settings, **measure.settings}, measure.seconds,
                  software)
    words = [sys.executable, '-m', __name__, measure.kind]
    if kind.spaces:
        words = ['unshare', '--propagation', 'private', *kind.spaces, *words]
    # What ends with its namespaces can be killed; all else clears away.
    end = signal.SIGKILL if kind.spaces else signal.SIGINT
    with subprocess.Popen(
            ['setpriv', '--pdeathsig', end.name.removeprefix('SIG'), *words],
            cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True) as process:
        try:
            text, _ = process.communicate(
                json.dumps(dataclasses.asdict(asked)))
        except BaseException:
            process.send_signal(end)
            process.wait()
            raise
    if process.returncode:
        raise errors.BenchError(f'it ended with {process.returncode}, see '
                                'above')
    found, details = json.loads(text)
    made = list(named.figures_of(found))
    if made:
        made[0].details = {'software': details}
    return made


def main(name: str) -> None:
    """In the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = Asked(**json.load(sys.stdin))
    answer = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    if alone.KINDS[name].spaces:
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    module = importlib.import_module(alone.KINDS[name].module)
    with answer:
        json.dump(module.run(asked), answer)


if __name__ == '__main__':
    main(sys.argv[1])

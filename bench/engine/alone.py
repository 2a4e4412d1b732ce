# SPDX-License-Identifier: Apache-2.0
"""Runs a round of a part of the product by itself, in a separate process with
its own namespaces.

    python -m bench.engine.alone KIND

Reads the request as JSON from standard input and writes results as JSON to
standard output. Other output goes to standard error.
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
    """:ivar settings: all settings of the kind.
    :ivar seconds: duration of measurements that can have any.
    """

    settings: dict[str, Any]
    seconds: float
    software: str


def run(measure: model.Measure, software: str) -> list[figures.Figure]:
    """:raises BenchError: the round failed."""
    kind = alone.KINDS[measure.kind]
    if os.geteuid():
        raise errors.BenchError(f'{measure.kind} is measured as root: it '
                                'loads programs and makes namespaces')
    asked = Asked({**kind.settings, **measure.settings}, measure.seconds,
                  software)
    words = [sys.executable, '-m', __name__, measure.kind]
    if kind.spaces:
        words = ['unshare', '--propagation', 'private', *kind.spaces, *words]
    # With its own namespaces it can be killed; otherwise it has to clean up.
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
    values, details = json.loads(text)
    made = list(named.figures_of(values))
    if made:
        made[0].details = {'software': details}
    return made


def main(name: str) -> None:
    """Run the round; called in its process."""
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

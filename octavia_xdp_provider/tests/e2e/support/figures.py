# SPDX-License-Identifier: Apache-2.0
"""How much slower somebody gets beside attackers: ``build/isolation.json``."""

import json

from lab import paths

FILE = paths.BUILD / 'isolation.json'


def record(name, control, hostile):
    """Write what was measured, seconds by name of a figure, beside what the
    other tests of this run have written.

    :param control: while the same attackers worked on something else.
    """
    figures = json.loads(FILE.read_text()) if FILE.exists() else {}
    figures[name] = {
        figure: {'control_s': round(seconds, 4),
                 'hostile_s': round(hostile[figure], 4),
                 'ratio': round(hostile[figure] / seconds, 2)}
        for figure, seconds in control.items()}
    FILE.write_text(json.dumps(figures, indent=1) + '\n')
    print(json.dumps(figures[name]))

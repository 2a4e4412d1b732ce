# SPDX-License-Identifier: Apache-2.0
"""Excerpts of a lab's logs that may explain a failure."""

import re

# Words for errors in the logs of nginx, MariaDB, RabbitMQ, oslo.log, gunicorn,
# Open vSwitch and BIRD.
_ERROR = re.compile(
    r'\b(emerg|alert|crit|critical|err|error|fatal|panic|denied|failed|'
    r'refused)\b|^Traceback|^\w*(Error|Exception)\b', re.IGNORECASE)
_NO_ERROR = re.compile(r'\b(DEBUG|INFO)\b')
LINES = 3  # of each log
LOGS = 6


def sizes(lab):
    """Return the size of each log, for `since`.

    :param lab: None if the processes are in no lab: there are no logs.
    """
    return {path: path.stat().st_size for path in _logs(lab)}


def since(lab, before):
    """Return the last errors in each log, of those written since `before`.

    :param before: what `sizes` returned.
    :returns: lines of text, '' if there are none.
    """
    errors = {path: lines for path in _logs(lab)
              if (lines := _errors(path, before.get(path, 0)))}
    newest = sorted(errors, key=lambda path: path.stat().st_mtime)[-LOGS:]
    return '\n'.join(f'{path.name}: {line}' for path in newest
                     for line in errors[path])


def _logs(lab):
    return lab.logs.glob('*.log') if lab else ()


def _errors(path, begin):
    with open(path, 'rb') as file:
        # If the lab was restarted meanwhile, the log is new and shorter.
        file.seek(begin if begin <= path.stat().st_size else 0)
        lines = file.read().decode(errors='replace').splitlines()
    return [line for line in lines
            if _ERROR.search(line) and not _NO_ERROR.search(line)][-LINES:]

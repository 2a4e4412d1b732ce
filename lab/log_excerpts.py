# SPDX-License-Identifier: Apache-2.0
"""What a lab's processes have logged that may explain a failure."""

import re

# As nginx, MariaDB, RabbitMQ, oslo.log, gunicorn, Open vSwitch, BIRD say it.
_TELLING = re.compile(
    r'\b(emerg|alert|crit|critical|err|error|fatal|panic|denied|failed|'
    r'refused)\b|^Traceback|^\w*(Error|Exception)\b', re.IGNORECASE)
_CHATTER = re.compile(r'\b(DEBUG|INFO)\b')
LINES = 3  # of each log
LOGS = 6


def sizes(lab):
    """How long each log is now, for `since`.

    :param lab: None: what runs is in no lab.
    """
    return {path: path.stat().st_size for path in _logs(lab)}


def since(lab, before):
    """The last telling lines of each log, of those written since then.

    :param before: what `sizes` returned.
    :returns: lines of text, '' if no log tells anything.
    """
    found = {path: lines for path in _logs(lab)
             if (lines := _telling(path, before.get(path, 0)))}
    newest = sorted(found, key=lambda path: path.stat().st_mtime)[-LOGS:]
    return '\n'.join(f'{path.name}: {line}' for path in newest
                     for line in found[path])


def _logs(lab):
    return lab.logs.glob('*.log') if lab else ()


def _telling(path, begin):
    with open(path, 'rb') as file:
        # A lab that was started meanwhile has begun a new log.
        file.seek(begin if begin <= path.stat().st_size else 0)
        lines = file.read().decode(errors='replace').splitlines()
    return [line for line in lines
            if _TELLING.search(line) and not _CHATTER.search(line)][-LINES:]

# SPDX-License-Identifier: Apache-2.0
"""wrk: HTTP/1.1 requests as fast as possible, one at a time on each
connection."""

import json
import pathlib

from bench import endpoint
from bench import errors
from bench.traffic.clients import result

_SCRIPT = pathlib.Path(__file__).with_name('wrk.lua')
# wrk's names → texts.
_FAILURES = {'connect': 'connections refused', 'read': 'read errors',
             'write': 'write errors', 'status': result.REFUSED,
             'timeout': 'timeouts'}


class Wrk(result.Client):

    def prepare(self, host):
        result.need(host, 'wrk', 'wrk')
        host.put(_SCRIPT, _SCRIPT.name)

    def command(self, host, address, port, seconds):
        words = ['wrk', '--threads', '1',
                 '--connections', str(self.connections),
                 '--duration', f'{max(1, round(seconds))}s',
                 '--timeout', '2s',
                 '--script', str(host.folder / _SCRIPT.name)]
        if not self.keep_alive:
            words += ['--header', 'Connection: close']
        return [*words, f'http://{endpoint.text(address, port)}/']

    def parse(self, host, output):
        return parse(output)


def parse(output: str) -> result.Result:
    """:param output: output of wrk with wrk.lua.
    :raises BenchError: it has no line of JSON, or nothing was answered.
    """
    lines = [line for line in output.splitlines() if line.startswith('{')]
    try:
        printed = json.loads(lines[-1])
        seconds = printed['duration_us'] / 1e6
        made = result.Result(
            seconds, printed['requests'],
            {name: printed['latency_us'][name] / 1e6
             for name in result.PERCENTILES},
            result.some({_FAILURES[name]: count
                         for name, count in printed['errors'].items()}))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise errors.BenchError('wrk printed no result: '
                                f'{output.strip()[-400:]!r}') from error
    return result.answered('wrk', made)

# SPDX-License-Identifier: Apache-2.0
"""h2load of nghttp2: HTTP/1.1 without TLS."""

import math
import re

from bench import endpoint
from bench import errors
from bench.traffic.clients import result

_LOG = 'h2load.log'
_COUNTS = re.compile(
    r'^requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, '
    r'(\d+) failed, (\d+) errored, (\d+) timeout$', re.MULTILINE)
_SECONDS = re.compile(r'^finished in ([\d.]+)(us|ms|s),', re.MULTILINE)
_UNITS = {'us': 1e-6, 'ms': 1e-3, 's': 1.0}


class H2load(result.Client):

    def prepare(self, host):
        result.need(host, 'h2load', 'nghttp2-client')

    def command(self, host, address, port, seconds):
        where = endpoint.text(address, port)
        log = str(host.folder / _LOG)
        # h2load appends to an existing log.
        return ['sh', '-c', 'rm -f "$1" && shift && exec "$@"', 'sh', log,
                'h2load', f'--clients={self.connections}', '--threads=1',
                f'--duration={max(1, round(seconds))}',
                '--h1', f'--log-file={log}', f'http://{where}/']

    def parse(self, host, output):
        log = host.read(host.folder / _LOG).decode()
        return parse(output, log)


def parse(output: str, log: str) -> result.Result:
    """:param log: lines of requests: time, status, microseconds.
    :raises BenchError: the output is malformed, or nothing was answered.
    """
    counts, taken = _COUNTS.search(output), _SECONDS.search(output)
    try:
        _, _, done, _, failed, errored, timeouts = map(int, counts.groups())
        seconds = float(taken[1]) * _UNITS[taken[2]]
        times = sorted(int(line.split('\t')[2]) for line in log.splitlines())
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise errors.BenchError('h2load printed no result: '
                                f'{output.strip()[-400:]!r}') from error
    # "failed" includes the others, and answers with status 400 or more.
    made = result.Result(
        seconds, done, _percentiles(times), result.some({
            result.REFUSED: failed - errored,
            'requests without an answer': errored - timeouts,
            'timeouts': timeouts}))
    return result.answered('h2load', made)


def _percentiles(times):
    """Return percentiles in seconds of sorted microseconds."""
    if not times:
        return {}
    ranks = {'p50': 0.5, 'p90': 0.9, 'p99': 0.99, 'max': 1.0}
    return {name: times[math.ceil(len(times) * rank) - 1] / 1e6
            for name, rank in ranks.items()}

# SPDX-License-Identifier: Apache-2.0
"""iperf3: bulk transfers by TCP."""

import json

from bench import errors
from bench.traffic.clients import result


class Iperf3(result.Client):
    """The client sends: with DSR, only that direction passes load balancers.
    """

    unit = 'bytes/s'

    def prepare(self, host):
        result.need(host, 'iperf3', 'iperf3')

    def command(self, host, address, port, seconds):
        return ['iperf3', '--client', address, '--port', str(port),
                '--time', str(max(1, round(seconds))), '--parallel',
                str(self.connections), '--json', '--connect-timeout', '5000']

    def parse(self, host, output):
        return parse(output)


def parse(output: str) -> result.Result:
    """:raises BenchError: the output is malformed or an error, or nothing
        arrived."""
    try:
        printed = json.loads(output)
        if 'error' in printed:
            raise errors.BenchError(f'iperf3: {printed["error"]}')
        received = printed['end']['sum_received']
        made = result.Result(received['seconds'], received['bytes'])
    except (KeyError, TypeError, ValueError) as error:
        raise errors.BenchError('iperf3 printed no result: '
                                f'{output.strip()[-400:]!r}') from error
    return result.answered('iperf3', made)

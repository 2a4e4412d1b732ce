# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host trace: packets that the programs took or dropped.

tcpdump at a tap does not show them, because the programs run before it.
"""

import sys
import time
import typing

from octavia_xdp_provider.host import types
from octavia_xdp_provider.hostctl import describe
from octavia_xdp_provider.hostctl import show
from octavia_xdp_provider.process import interrupts
from octavia_xdp_provider.process import output
from octavia_xdp_provider.process import stdout

# Milliseconds that a read waits; bounds how late an interrupt is noticed.
_WAIT_MS = 250
_HOOKS = {types.Hook.NIC: 'underlay', types.Hook.TAP_IN: 'from VM',
          types.Hook.TAP_OUT: 'to VM'}


def run(place: typing.Any, arguments: typing.Any) -> int:
    host = place.open()
    try:
        with interrupts.asked_to_end() as ended:
            host.packets()  # discard leftovers of a killed trace
            host.trace(arguments.port)
            try:
                print('tracing ' + (arguments.port or 'all ports'),
                      file=sys.stderr, flush=True)
                count = _follow(host, arguments, ended)
            finally:
                host.trace(arguments.port, on=False)
        print(f'{count} packets', file=sys.stderr)
    finally:
        host.close()
    return 0


def _follow(host: typing.Any, arguments: typing.Any,
            ended: typing.Callable[[], bool]) -> int:
    count = 0
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    while not ended() and (end is None or time.monotonic() < end):
        offset = time.time_ns() - time.monotonic_ns()
        for packet in host.packets(_WAIT_MS):
            stdout.say(_text(packet, packet.time + offset, arguments.format))
            count += 1
            if count == arguments.count:
                return count
    return count


def _text(packet: types.Traced, when_ns: int, form: str) -> str:
    name = show.interface(packet.ifindex) or str(packet.ifindex)
    words = describe.frame(packet.data)
    outcome = packet.outcome.name.lower()
    if form == 'json':
        return output.line({
            'time': when_ns / 1e9, 'hook': packet.hook.name.lower(),
            'interface': name, 'outcome': outcome,
            'key': packet.key or None, 'length': packet.length,
            'packet': words, 'data': packet.data})
    seconds = time.strftime('%H:%M:%S', time.localtime(when_ns // 10 ** 9))
    key = f' key {packet.key}' if packet.key else ''
    return (f'{seconds}.{when_ns % 10 ** 9 // 1000:06} {name} '
            f'{_HOOKS[packet.hook]}: {outcome}{key}: {words}, '
            f'{packet.length} bytes')

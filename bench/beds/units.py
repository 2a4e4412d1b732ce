# SPDX-License-Identifier: Apache-2.0
"""Stops the product's units on real machines while these are a bed.

Scenarios set up tables, programs and routes at the same interfaces themselves.
"""

from bench.beds import channel

# In stop order: routes are withdrawn before what serves them stops.
_STOPPED = ('octavia-xdp-exabgp.service', 'octavia-xdp-agent.service',
            'octavia-xdp-result-handler.service', 'octavia-xdp-hc.service',
            'octavia-xdp-member@*.service')
# Pin directory of the node's tables and program. Without the pins the kernel
# releases the program; the agent creates them again when it starts.
_PINS = '/sys/fs/bpf/octavia-xdp'
_TIMEOUT_S = 180


def stop(host: channel.Host) -> None:
    """Stop running units; the agent starts them again when the bed ends."""
    if host.run(['test', '-d', '/run/systemd/system'],
                check=False).returncode:
        return
    shown = host.run(['systemctl', 'list-units', '--plain', '--no-legend',
                      '--state=active,activating,reloading', *_STOPPED]).stdout
    units = [line.split()[0] for line in shown.splitlines() if line.strip()]
    if not units:
        return
    units.sort(key=lambda unit: _STOPPED.index(unit)
               if unit in _STOPPED else len(_STOPPED))
    host.undo(['systemctl', 'start', *units])
    for unit in units:
        host.run(['systemctl', 'stop', unit], timeout=_TIMEOUT_S)
    host.run(['rm', '-rf', _PINS])

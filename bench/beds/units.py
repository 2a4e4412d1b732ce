# SPDX-License-Identifier: Apache-2.0
"""The product's units on real machines do not run while these are a bed.

Scenarios make tables, programs and routes themselves, at the same interfaces.
"""

from bench.beds import channel

# In the order in which they stop: routes go before what serves them.
_STOPPED = ('octavia-xdp-exabgp.service', 'octavia-xdp-agent.service',
            'octavia-xdp-result-handler.service', 'octavia-xdp-hc.service',
            'octavia-xdp-member@*.service')
# Where the node's tables and its program are pinned; without them the kernel
# lets go of the program. The agent makes them anew when it starts.
_PINS = '/sys/fs/bpf/octavia-xdp'
_TIMEOUT_S = 180


def stop(host: channel.Host) -> None:
    """Those that run are started again at the end, whatever ends the bed."""
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

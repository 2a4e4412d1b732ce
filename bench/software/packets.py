# SPDX-License-Identifier: Apache-2.0
"""Counts packets that load balancers have received, by their devices."""

import json

from bench.beds import interface


def received(bed: interface.Bed) -> int:
    """Return packets at all interfaces of load balancers since the bed began.

    Packets that XDP forwards or drops count too. Packets merged by a device
    (GRO of a sender's large ones) count as merged.
    """
    return sum(_received(host)
               for host in bed.by_role(interface.LOAD_BALANCER))


def _received(host):
    shown = json.loads(host.run(['ip', '-statistics', '-json', 'link']).stdout)
    names = {end.name for end in host.interfaces.values()}
    return sum(device['stats64']['rx']['packets'] for device in shown
               if device['ifname'] in names)

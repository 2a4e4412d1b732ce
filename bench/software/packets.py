# SPDX-License-Identifier: Apache-2.0
"""How many packets load balancers were given, as their devices count them."""

import json

from bench.beds import interface


def received(bed: interface.Bed) -> int:
    """By all load balancers, at all of their interfaces, since the bed began.

    What XDP sends on or drops counts as well. Where devices merge packets (GRO
    of a sender's large ones) it is what they merged.
    """
    return sum(_received(host)
               for host in bed.by_role(interface.LOAD_BALANCER))


def _received(host):
    shown = json.loads(host.run(['ip', '-statistics', '-json', 'link']).stdout)
    names = {one.name for one in host.interfaces.values()}
    return sum(device['stats64']['rx']['packets'] for device in shown
               if device['ifname'] in names)

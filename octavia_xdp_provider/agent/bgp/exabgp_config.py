# SPDX-License-Identifier: Apache-2.0
"""The configuration of ExaBGP on an LB node."""

import collections.abc
import dataclasses
import re

PROCESS = 'octavia-xdp'

# ExaBGP reads settings of the daemon from its environment.
ENVIRONMENT = {
    'exabgp_api_ack': 'true',
    'exabgp_api_cli': 'false',
    'exabgp_api_respawn': 'true',
    'exabgp_log_destination': 'stderr',
}

_NEIGHBOUR = '''\
neighbor {peer_address} {{
    description "{description}";
    router-id {router_id};
    local-address {local_address};
    local-as {local_as};
    peer-as {peer_as};
    hold-time {hold_time};
    adj-rib-out true;
    capability {{
        # "0" and leaving it out mean the hold time.
        graceful-restart disable;
    }}
    family {{
        {families};
    }}
    api {{
        processes [ {process} ];
        neighbor-changes;
    }}
}}
'''

_PROCESS = '''\
process {process} {{
    run {command};
    encoder json;
    respawn true;
}}
'''


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A router that this node announces to.

    ``hold_time``: BGP's hold time in seconds.

    Graceful restart stays off: if ExaBGP ends, the node may have failed, and
    routers must use other nodes at once.
    """

    local_address: str
    local_as: int
    peer_address: str
    peer_as: int
    hold_time: int = 9
    families: tuple[str, ...] = ('ipv4 unicast',)
    description: str = 'router'


def render(router_id: str, neighbours: collections.abc.Iterable[Neighbour],
           command: collections.abc.Sequence[str]) -> str:
    """Return the text of exabgp.conf.

    :param router_id: BGP identifier of this node.
    :param neighbours: the routers.
    :param command: the announcer's command line as a list; the program needs
        its absolute path.
    :raises ValueError: an argument would need quoting.
    """
    for argument in command:
        # ExaBGP cannot quote these characters.
        if not re.fullmatch(r'[^\s;{}\[\]()"\'#,\\]+', argument):
            raise ValueError(f'{argument!r} cannot stand in exabgp.conf')
    parts = [_PROCESS.format(process=PROCESS, command=' '.join(command))]
    for neighbour in neighbours:
        values = dataclasses.asdict(neighbour)
        values['families'] = ';\n        '.join(neighbour.families)
        parts.append(_NEIGHBOUR.format(
            router_id=router_id, process=PROCESS, **values))
    return '\n'.join(parts)

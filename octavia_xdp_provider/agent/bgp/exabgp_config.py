# SPDX-License-Identifier: Apache-2.0
"""The configuration of ExaBGP on an LB node."""

import collections.abc
import dataclasses
import re

PROCESS = 'octavia-xdp'

# ExaBGP takes settings that concern the daemon from its environment.
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

    ``hold_time``, in seconds, is what ExaBGP calls it.

    Graceful restart stays off: a node whose ExaBGP ended may be a node that
    ended, and the router shall use the others at once.
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
    """The text of exabgp.conf.

    :param router_id: BGP identifier of this node.
    :param neighbours: the routers.
    :param command: the announcer's command line, a list; the program with
        its whole path.
    :raises ValueError: a word of the command cannot be quoted.
    """
    for word in command:
        # ExaBGP has no way of quoting these.
        if not re.fullmatch(r'[^\s;{}\[\]()"\'#,\\]+', word):
            raise ValueError(f'{word!r} cannot stand in exabgp.conf')
    parts = [_PROCESS.format(process=PROCESS, command=' '.join(command))]
    for neighbour in neighbours:
        values = dataclasses.asdict(neighbour)
        values['families'] = ';\n        '.join(neighbour.families)
        parts.append(_NEIGHBOUR.format(
            router_id=router_id, process=PROCESS, **values))
    return '\n'.join(parts)

# SPDX-License-Identifier: Apache-2.0
"""Options for the BGP attributes of an LB node's announcements."""

from oslo_config import cfg

from octavia_xdp_provider.config import option_values

_U32_MAX = 2 ** 32 - 1
# A command to ExaBGP must fit into one write to its pipe (agent/bgp/route.py).
_AS_PATH_PREPEND_MAX = 16
_COMMUNITIES_MAX = 32

bgp_opts = [
    cfg.ListOpt('communities',
                default=[], mutable=True,
                help='Communities (RFC 1997), as 65000:1 or by name '
                     '(no-export, …), that each VIP is announced with.'),
    cfg.ListOpt('large_communities',
                default=[], mutable=True,
                help='Large communities (RFC 8092), as 65000:1:2, that each '
                     'VIP is announced with.'),
    cfg.IntOpt('med', min=0, max=_U32_MAX, mutable=True,
               help='MED (RFC 4271, 5.1.4) of each VIP. Default: none.'),
    cfg.IntOpt('local_preference', min=0, max=_U32_MAX, mutable=True,
               help='LOCAL_PREF (RFC 4271, 5.1.5) of each VIP; sent in '
                    'sessions within one AS only. Default: the speaker\'s, '
                    'which is 100.'),
    cfg.ListOpt('drain_communities',
                default=['graceful-shutdown'], mutable=True,
                help='Communities that a VIP is announced with in addition '
                     'while it is drained from this node. '
                     'graceful-shutdown is 65535:0 (RFC 8326): a router that '
                     'is configured for it takes other paths as soon as it '
                     'has any. Set whatever your routers obey.'),
    cfg.IntOpt('drain_med', min=0, max=_U32_MAX, mutable=True,
               help='MED of a VIP while it is drained: higher than that of '
                    'other nodes, for routers that compare it. Default: as '
                    'med.'),
    cfg.IntOpt('drain_local_preference', min=0, max=_U32_MAX, mutable=True,
               help='LOCAL_PREF of a VIP while it is drained; sent in '
                    'sessions within one AS only, for which RFC 8326 '
                    'recommends 0. Default: as local_preference.'),
    cfg.IntOpt('drain_as_path_prepend',
               default=0, min=0, max=_AS_PATH_PREPEND_MAX, mutable=True,
               help='How often the node\'s AS is put in front of the path of '
                    'a VIP while it is drained. For sessions between ASes '
                    'only: where a session is within one, the VIP would not '
                    'be announced, so leave it at 0.'),
]

# Option → number of parts of a value, and the largest value of a part.
_COMMUNITIES = {'communities': (2, 2 ** 16 - 1),
                'drain_communities': (2, 2 ** 16 - 1),
                'large_communities': (3, _U32_MAX)}
# Of https://www.iana.org/assignments/bgp-well-known-communities.
NAMES = frozenset(('graceful-shutdown', 'blackhole', 'no-export',
                   'no-advertise', 'no-export-subconfed', 'no-peer'))


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse values that cannot be announced.

    :raises ConfigurationError: names the option.
    """
    for names in (('communities', 'drain_communities'),
                  ('large_communities',)):
        number = sum(len(conf.bgp[name]) for name in names)
        if number > _COMMUNITIES_MAX:
            raise option_values.ConfigurationError(
                f'[bgp] {" and ".join(names)}: {number} are more than '
                f'{_COMMUNITIES_MAX}')
    for name, (parts, largest) in _COMMUNITIES.items():
        for text in conf.bgp[name]:
            if parts == 2 and text in NAMES:
                continue
            numbers = text.split(':')
            if len(numbers) != parts or not all(
                    part.isascii() and part.isdigit() and int(part) <= largest
                    for part in numbers):
                raise option_values.ConfigurationError(
                    f'[bgp] {name}: {text!r} is not {parts} numbers up to '
                    f'{largest} with colons between them')

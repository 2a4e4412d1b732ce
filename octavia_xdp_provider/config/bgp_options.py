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
                help='Communities (RFC 1997) with which each VIP is '
                     'announced, such as 65000:1, or by name (no-export, …).'),
    cfg.ListOpt('large_communities',
                default=[], mutable=True,
                help='Large communities (RFC 8092) with which each VIP is '
                     'announced, such as 65000:1:2.'),
    cfg.IntOpt('med', min=0, max=_U32_MAX, mutable=True,
               help='MED (RFC 4271, 5.1.4) of each VIP. Default: none.'),
    cfg.IntOpt('local_preference', min=0, max=_U32_MAX, mutable=True,
               help='LOCAL_PREF (RFC 4271, 5.1.5) of each VIP; sent only in '
                    'sessions within one AS. Default: the speaker\'s, 100.'),
    cfg.ListOpt('drain_communities',
                default=['graceful-shutdown'], mutable=True,
                help='Communities that are added to a VIP while it is drained '
                     'from this node. graceful-shutdown is 65535:0 (RFC '
                     '8326): a router that is configured for it prefers any '
                     'other path. Use the communities that your routers act '
                     'on.'),
    cfg.IntOpt('drain_med', min=0, max=_U32_MAX, mutable=True,
               help='MED of a VIP while it is drained. Set it higher than '
                    'that of other nodes if your routers compare it. Default: '
                    'med.'),
    cfg.IntOpt('drain_local_preference', min=0, max=_U32_MAX, mutable=True,
               help='LOCAL_PREF of a VIP while it is drained, for which RFC '
                    '8326 recommends 0; sent only in sessions within one AS. '
                    'Default: local_preference.'),
    cfg.IntOpt('drain_as_path_prepend',
               default=0, min=0, max=_AS_PATH_PREPEND_MAX, mutable=True,
               help='How many times the node\'s AS is prepended to the path '
                    'of a VIP while it is drained. For sessions between ASes '
                    'only: leave it at 0 if a session is within one AS, '
                    'because the VIP would not be announced there.'),
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

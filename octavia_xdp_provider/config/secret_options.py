# SPDX-License-Identifier: Apache-2.0
"""Options of tenants' certificates and keys."""

import re

from oslo_config import cfg

from octavia_xdp_provider.config import option_values

GROUP = 'secrets'

_PUBLIC_KEY = re.compile(r'[0-9A-Za-z+/]{43}=')

secret_opts = [
    cfg.StrOpt('controller_public_key',
               help='For the driver: the controllers\' public key, for which '
                    'it encrypts the certificates and private keys that '
                    'Octavia hands over. "octavia-xdp-manage secrets key" on '
                    'a control host prints it. Without it, whatever needs a '
                    'certificate is refused.'),
    cfg.StrOpt('private_key_file',
               default='/var/lib/octavia-xdp/secrets/private-key',
               help='For the controllers: the file with the private key of '
                    'controller_public_key, the same on all control hosts. '
                    '"octavia-xdp-manage secrets key" creates it. Only the '
                    'controller\'s user may read it.'),
    cfg.StrOpt('keys_file',
               default='/var/lib/octavia-xdp/secrets/keys',
               help='For the controllers: the file with the keys that encrypt '
                    'certificates and private keys in the database, one on '
                    'each line, the same on all control hosts. The first one '
                    'encrypts, all of them decrypt, so that keys can be '
                    'changed ("octavia-xdp-manage secrets rotate"). It is '
                    'read at each use. Only the controller\'s user may read '
                    'it.'),
    cfg.IntOpt('ticket_rotation',
               default=12 * 3600, min=600, max=7 * 24 * 3600,
               help='For the controllers: seconds after which a load balancer '
                    'gets a new key for TLS session tickets. A client can '
                    'resume a session for one to two of these periods. '
                    'Whoever steals the keys can decrypt recorded sessions of '
                    'these periods, unless their TLS version and cipher have '
                    'forward secrecy.'),
]


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse invalid values.

    :raises ConfigurationError: names the option.
    """
    key = conf.secrets.controller_public_key
    if key is not None and not _PUBLIC_KEY.fullmatch(key):
        raise option_values.ConfigurationError(
            f'[{GROUP}] controller_public_key: it is no key of 44 characters '
            'as "octavia-xdp-manage secrets key" prints it')
    for name in ('private_key_file', 'keys_file'):
        if not conf.secrets[name].startswith('/'):
            raise option_values.ConfigurationError(
                f'[{GROUP}] {name}: {conf.secrets[name]!r} is not an absolute '
                'path')

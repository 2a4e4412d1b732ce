# SPDX-License-Identifier: Apache-2.0
"""What the wizard offers for load balancers of this provider.

Tenants may not ask Octavia which values a provider takes: that is for
administrators. So the choices are here, and an operator adds to them what the
cloud's driver takes beyond its defaults, in Horizon's local_settings.py::

    OCTAVIA_XDP = {
        # Names of the provider in octavia.conf.
        'providers': ['xdp'],
        # Whether a load balancer without a provider is of one of them.
        'is_default_provider': True,
        # As [api] algorithms_served_by_hash of the driver.
        'algorithms_served_by_hash': ['ROUND_ROBIN'],
        # As [members] monitor_http_methods of the driver.
        'monitor_methods': ['GET', 'HEAD', 'OPTIONS'],
    }
"""

SETTING = 'OCTAVIA_XDP'
DEFAULTS = {
    'providers': ['xdp'],
    'is_default_provider': False,
    'algorithms_served_by_hash': [],
    'monitor_methods': ['GET', 'HEAD', 'OPTIONS'],
}
# What the driver takes whatever its operator sets.
PROTOCOLS = ['TCP', 'UDP', 'SCTP', 'HTTPS']
ALGORITHMS = ['SOURCE_IP_PORT', 'SOURCE_IP']
PERSISTENCE_TYPES = ['SOURCE_IP']


def of(operator_settings):
    """The choices, as JSON has them.

    :param operator_settings: the operator's OCTAVIA_XDP, or None.
    :raises ValueError: it names a setting that there is not.
    """
    chosen = {**DEFAULTS, **(operator_settings or {})}
    unknown = sorted(set(chosen) - set(DEFAULTS))
    if unknown:
        raise ValueError(f'{SETTING} has no {", ".join(unknown)}; it has '
                         f'{", ".join(sorted(DEFAULTS))}')
    return {
        'providers': chosen['providers'],
        'is_default_provider': chosen['is_default_provider'],
        'protocols': PROTOCOLS,
        'algorithms': ALGORITHMS + [
            name for name in chosen['algorithms_served_by_hash']
            if name not in ALGORITHMS],
        'persistence_types': PERSISTENCE_TYPES,
        'monitor_methods': chosen['monitor_methods'],
    }

# SPDX-License-Identifier: Apache-2.0
"""Which load balancers are this provider's.

Tenants cannot ask Octavia for its default provider, so operators name it in
Horizon's local_settings.py::

    OCTAVIA_XDP = {
        # Names of the provider in octavia.conf.
        'providers': ['xdp'],
        # Whether a load balancer without a provider is of one of them.
        'is_default_provider': True,
    }
"""

SETTING = 'OCTAVIA_XDP'
DEFAULTS = {'providers': ['xdp'], 'is_default_provider': False}


def names(operator_settings):
    """Return the provider's names, with None if it is Octavia's default.

    :param operator_settings: the operator's OCTAVIA_XDP, or None.
    :raises ValueError: it contains an unknown setting.
    """
    settings = {**DEFAULTS, **(operator_settings or {})}
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise ValueError(f'{SETTING} has no {", ".join(unknown)}; it has '
                         f'{", ".join(sorted(DEFAULTS))}')
    default = [None] if settings['is_default_provider'] else []
    return {*settings['providers'], *default}

# SPDX-License-Identifier: Apache-2.0
"""Options of keystoneauth1 for sections that name another service's API."""

import copy

from keystoneauth1 import loading
from oslo_config import cfg

TIMEOUT_S = 10.0


def adapter_opts(service_type: str) -> list[cfg.Opt]:
    """Where the service is found."""
    found = copy.deepcopy(loading.get_adapter_conf_options(
        include_deprecated=False))
    cfg.set_defaults(found, service_type=service_type,
                     valid_interfaces=['internal', 'public'])
    return list(found)


def session_opts() -> list[cfg.Opt]:
    """How it is spoken to."""
    found = copy.deepcopy(loading.get_session_conf_options())
    cfg.set_defaults(found, timeout=TIMEOUT_S)
    return list(found)

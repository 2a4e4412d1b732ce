# SPDX-License-Identifier: Apache-2.0
"""Options of keystoneauth1 for sections that name another service's API."""

import contextlib
import copy
import functools
from typing import Any

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


def load_session(conf: cfg.ConfigOpts, group: str, auth: Any) -> Any:
    """A session whose requests begin at once.

    keystoneauth1's adapters have each request wait until a time of day that
    they keep for a limit of rates, also without one: that of their creation.
    After the host's clock was set back by an hour that is an hour.
    """
    session = loading.load_session_from_conf_options(conf, group, auth=auth)
    request = session.request

    @functools.wraps(request)
    def at_once(*arguments: Any, **named: Any) -> Any:
        named['rate_semaphore'] = contextlib.nullcontext()
        return request(*arguments, **named)
    session.request = at_once
    return session

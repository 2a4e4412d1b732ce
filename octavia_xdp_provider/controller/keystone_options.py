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
    """Return the options that locate the service."""
    opts = copy.deepcopy(loading.get_adapter_conf_options(
        include_deprecated=False))
    cfg.set_defaults(opts, service_type=service_type,
                     valid_interfaces=['internal', 'public'])
    return list(opts)


def session_opts() -> list[cfg.Opt]:
    """Return the options of connections to the service."""
    opts = copy.deepcopy(loading.get_session_conf_options())
    cfg.set_defaults(opts, timeout=TIMEOUT_S)
    return list(opts)


def load_session(conf: cfg.ConfigOpts, group: str, auth: Any) -> Any:
    """Return a session whose requests begin at once.

    keystoneauth1's adapters delay each request until a time of day that they
    keep for their rate limit, even without a limit: that of their creation.
    After the host's clock was set back by an hour, that takes an hour.
    """
    session: Any = loading.load_session_from_conf_options(
        conf, group, auth=auth)
    request = session.request

    @functools.wraps(request)
    def at_once(*arguments: Any, **named: Any) -> Any:
        named['rate_semaphore'] = contextlib.nullcontext()
        return request(*arguments, **named)
    session.request = at_once
    return session

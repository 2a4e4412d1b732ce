# SPDX-License-Identifier: Apache-2.0
"""Defaults of the Octavia in whose API the driver runs."""

import contextlib
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.driver import support


def read() -> dict[str | None, Any]:
    """Option in Octavia's [api_settings] → value, of those that the support
    table names; without those that this Octavia does not have."""
    names = {rule.default for rules in support.SUPPORT.values()
             for rule in rules.values()
             if isinstance(rule, support.Refuse) and rule.default}
    found: dict[str | None, Any] = {}
    for name in names:
        with contextlib.suppress(cfg.NoSuchOptError):
            found[name] = cfg.CONF.api_settings[name]
    return found

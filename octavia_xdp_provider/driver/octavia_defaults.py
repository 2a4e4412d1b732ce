# SPDX-License-Identifier: Apache-2.0
"""Default values that the operator configured in Octavia's API."""

import contextlib
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.driver import support


def read() -> dict[str | None, Any]:
    """Return option → value for each option of Octavia's [api_settings] that
    the support table names. Options that this Octavia lacks are left out."""
    names = {rule.only.default for rules in support.SUPPORT.values()
             for rule in rules.values()
             if isinstance(rule, support.Done) and rule.only
             and rule.only.default}
    values: dict[str | None, Any] = {}
    for name in names:
        with contextlib.suppress(cfg.NoSuchOptError):
            values[name] = cfg.CONF.api_settings[name]
    return values

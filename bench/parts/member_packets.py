# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per packet of a member's programs, by encapsulation."""

from typing import Any

from bench.engine import alone
from bench.parts import packets


def run(asked: alone.Asked) -> tuple[dict[str, Any], Any]:
    found = packets.run_program('members')
    return {f'{one["encapsulation"]}, {one["case"]}': {
        f'{name}_ns': one[name]['median_ns']
        for name in ('xdp', 'tc_after_xdp', 'tc')} for one in found}, found

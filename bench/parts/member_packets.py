# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per packet of a member's programs, by encapsulation."""

from typing import Any

from bench.engine import alone
from bench.parts import packets


def run(asked: alone.Asked) -> tuple[dict[str, Any], Any]:
    cases = packets.run_program('members')
    return {f'{case["encapsulation"]}, {case["case"]}': {
        f'{name}_ns': case[name]['median_ns']
        for name in ('xdp', 'tc_after_xdp', 'tc')} for case in cases}, cases

# SPDX-License-Identifier: Apache-2.0
"""What tests with random frames are told by the environment."""

import os

PREFIX = 'OCTAVIA_XDP_MUTATION_'


def setting(name: str, default: int | None) -> int | None:
    value = os.environ.get(PREFIX + name)
    return default if value is None else int(value)

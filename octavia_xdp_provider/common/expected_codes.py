# SPDX-License-Identifier: Apache-2.0
"""The expected_codes of a health monitor."""


def parse(text: str) -> tuple[tuple[int, int], ...]:
    """``"200"``, ``"200,202"``, ``"200-204"`` or a mixture, as ranges.

    :returns: a tuple of (first, last).
    :raises ValueError: it is none of these, or no HTTP status code.
    """
    ranges = []
    for part in str(text).split(','):
        first, dash, last = part.strip().partition('-')
        low = int(first)
        high = int(last) if dash else low
        if not 100 <= low <= high <= 599:
            raise ValueError(f'{part.strip()} is not a status code or range')
        ranges.append((low, high))
    return tuple(ranges)

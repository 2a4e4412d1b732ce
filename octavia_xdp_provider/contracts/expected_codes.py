# SPDX-License-Identifier: Apache-2.0
"""The expected_codes of a health monitor."""


def parse(text: str) -> tuple[tuple[int, int], ...]:
    """Parse ``"200"``, ``"200,202"``, ``"200-204"`` or a mixture.

    :returns: ranges, (first, last) each.
    :raises ValueError: the form is another one, or a code is not of HTTP.
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

# SPDX-License-Identifier: Apache-2.0
"""Ages of truncated timestamps, of which only the low bits are stored."""

AHEAD = 64  # units that a timestamp may lie in the future
AHEAD_MS = 65536


def since(then: int, now: int, mask: int, ahead: int) -> int:
    """Return the age; 0 for future times, set by CPUs that are ahead."""
    return max(0, ((now - then + ahead) & mask) - ahead)

# SPDX-License-Identifier: Apache-2.0
"""How long ago something was, of which only the low bits of its time were
kept.
"""

AHEAD = 64  # so many units a time may be to come
AHEAD_MS = 65536


def since(then: int, now: int, mask: int, ahead: int) -> int:
    """0 also of what is to come: somebody else has read the clock later."""
    return max(0, ((now - then + ahead) & mask) - ahead)

# SPDX-License-Identifier: Apache-2.0
"""Tenants' certificates and keys on their way, as ciphertext.

A bundle (bundles/bundle.py) is named by a keyed hash, and travels as base64 of
a box that only its receiver opens (bundles/sealing.py).
"""

from typing import Annotated

import pydantic

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields

# Bytes of the text in a bundle. A chain of a few certificates has a tenth of
# this; lists of revoked certificates can be longer.
BUNDLE_BYTES_MAX = 256 << 10
# Bundles of a change, and of a load balancer at any time.
BUNDLES_MAX = 256
# Characters of a sealed bundle: JSON and the box add little, base64 a third.
SEALED_MAX = BUNDLE_BYTES_MAX * 3 // 2
# Characters of all sealed bundles in a message.
MESSAGE_MAX = 4 << 20

_TOO_LARGE = ('use fewer or shorter certificates and lists of revoked '
              'certificates at a time')


def _check_total(bundles: dict[str, str]) -> errors.Problem | None:
    size = sum(map(len, bundles.values()))
    if size <= MESSAGE_MAX:
        return None
    return (f'all certificates together have {size} characters, the limit is '
            f'{MESSAGE_MAX}', _TOO_LARGE)


Name = Annotated[str, pydantic.Field(pattern=r'^[0-9a-f]{64}$')]
Sealed = Annotated[str, pydantic.Field(min_length=1, max_length=SEALED_MAX)]
PublicKey = Annotated[str, pydantic.Field(pattern=r'^[0-9A-Za-z+/]{43}=$')]
Bundles = Annotated[dict[Name, Sealed],
                    pydantic.Field(max_length=BUNDLES_MAX),
                    fields.refuse(_check_total)]

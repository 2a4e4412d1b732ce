# SPDX-License-Identifier: Apache-2.0
"""Tenants' certificates and keys on their way, as ciphertext.

A bundle (bundles/bundle.py) is named by a keyed hash, and travels as base64 of
a box that only its receiver opens (bundles/sealing.py).
"""

from collections.abc import Iterator
from typing import Annotated
from typing import Any

import pydantic

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import spec

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


Name = l7_types.BundleHash
Sealed = Annotated[str, pydantic.Field(min_length=1, max_length=SEALED_MAX)]
PublicKey = Annotated[str, pydantic.Field(pattern=r'^[0-9A-Za-z+/]{43}=$')]
Bundles = Annotated[dict[Name, Sealed],
                    pydantic.Field(max_length=BUNDLES_MAX),
                    fields.refuse(_check_total)]

# Fields of a document that name bundles, and Octavia's options for them.
_OPTIONS = {
    'listeners': {
        'default_tls_bundle': 'default_tls_container_ref',
        'sni_bundles': 'sni_container_refs',
        'client_ca_bundle': 'client_ca_tls_container_ref',
        'client_crl_bundle': 'client_crl_container_ref'},
    'pools': {
        'tls_bundle': 'tls_container_ref',
        'ca_bundle': 'ca_tls_container_ref',
        'crl_bundle': 'crl_container_ref'},
}


def options(document: spec.Document | None) -> dict[str, str]:
    """Return name → Octavia's option, of all bundles that a document names."""
    return dict(_options(document or {}))


def _options(document: Any) -> Iterator[tuple[str, str]]:
    for kind, options_ in _OPTIONS.items():
        for children in (document.get(kind) or {}).values():
            for field, option in options_.items():
                if field not in children:
                    continue
                named = children[field]
                for name in [named] if isinstance(named, str) else named or ():
                    yield name, option

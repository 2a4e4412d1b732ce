# SPDX-License-Identifier: Apache-2.0
"""What the operator allows users of the API to request."""

import dataclasses
from typing import Any

from octavia_xdp_provider.contracts import address_policy


@dataclasses.dataclass(frozen=True)
class ApiPolicy:
    """The driver's view of the operator's options.

    :param addresses: which addresses VIPs and members may have.
    :param http_methods: ``[members] monitor_http_methods``.
    :param defaults: flavor metadata for keys that flavors leave out:
        ``[defaults]``, and ``[api] algorithms_served_by_hash``.
    :param check_subnets: ``[members] check_subnets``.
    :param check_vip_subnets: whether to ask Neutron for the subnets of VIPs;
        false with ``[vip] any_network``.
    :param octavia_defaults: option → value of [api_settings] of the Octavia
        that the driver runs in, as far as they exist.
    :param public_key: ``[secrets] controller_public_key``.
    """

    addresses: address_policy.AddressPolicy
    http_methods: tuple[str, ...] = ('GET', 'HEAD', 'OPTIONS')
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    check_subnets: bool = False
    check_vip_subnets: bool = False
    octavia_defaults: dict[str | None, Any] = dataclasses.field(
        default_factory=dict)
    public_key: str | None = None

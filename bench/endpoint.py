# SPDX-License-Identifier: Apache-2.0
"""Formats an address with a port for URLs and configuration files."""


def text(address: str, port: int) -> str:
    """Return address:port, with brackets around IPv6 addresses."""
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'

# SPDX-License-Identifier: Apache-2.0
"""An address with a port, as URLs and configuration files have it."""


def text(address: str, port: int) -> str:
    """IPv6 addresses in brackets."""
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'

# SPDX-License-Identifier: Apache-2.0
"""A QUIC client whose address changes in the middle of a connection.

Usage: python -m lab.fabric.quic_client VIP PORT CONNECTIONS MOVES

It prints a JSON list with an entry for each connection: the names of the
servers that answered before the first and after each change of the client's
port.
"""

import asyncio
import json
import socket
import ssl
import sys

from aioquic import asyncio as quic
from aioquic.quic import configuration

from lab.fabric import quic_server

LIMIT = 10  # seconds for one request


async def _ask(protocol):
    reader, writer = await protocol.create_stream()
    writer.write(b'who?')
    writer.write_eof()
    name, echo = (await reader.read()).decode().split(' ', 1)
    if echo != 'who?':
        raise RuntimeError(f'unexpected echo {echo!r}')
    return name


async def _move(protocol):
    """Continue the connection from another port."""
    old = protocol._transport
    new = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    new.bind(('::', 0))
    # connection_made() makes the protocol use the new transport.
    await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: protocol, sock=new)
    old.close()


async def _connection(vip, port, moves):
    settings = configuration.QuicConfiguration(
        is_client=True, alpn_protocols=[quic_server.ALPN],
        verify_mode=ssl.CERT_NONE)
    async with quic.connect(vip, port, configuration=settings) as protocol:
        names = [await asyncio.wait_for(_ask(protocol), LIMIT)]
        for _ in range(moves):
            await _move(protocol)
            names.append(await asyncio.wait_for(_ask(protocol), LIMIT))
    return names


async def main(vip, port, connections, moves):
    """Make one connection after the other, and print their results."""
    print(json.dumps([await _connection(vip, port, moves)
                      for _ in range(connections)]))


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))

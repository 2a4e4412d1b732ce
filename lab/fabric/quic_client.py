# SPDX-License-Identifier: Apache-2.0
"""A QUIC client whose address changes in the middle of a connection.

Started as: python -m lab.fabric.quic_client VIP PORT CONNECTIONS MOVES

Prints a JSON list with an entry for each connection: the names that the
server gave itself before the first and after each change of the client's
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

LIMIT = 10  # seconds for one question


async def _ask(protocol):
    reader, writer = await protocol.create_stream()
    writer.write(b'who?')
    writer.write_eof()
    name, echo = (await reader.read()).decode().split(' ', 1)
    if echo != 'who?':
        raise RuntimeError(f'got {echo!r} back')
    return name


async def _move(protocol):
    """Let the connection go on from another port."""
    old = protocol._transport
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(('::', 0))
    # connection_made() makes the protocol use the new transport.
    await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: protocol, sock=one)
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
    """One connection after the other."""
    print(json.dumps([await _connection(vip, port, moves)
                      for _ in range(connections)]))


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))

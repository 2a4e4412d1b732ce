# SPDX-License-Identifier: Apache-2.0
"""A QUIC server that answers each stream with a name and the received data.

Its connection IDs contain the member's server ID in plain text, by
draft-ietf-quic-load-balancers, so that packets of a client whose address has
changed reach the same member.

Usage: python -m lab.fabric.quic_server VIP PORT NAME MEMBER_ADDRESS
"""

import asyncio
import datetime
import ipaddress
import os
import sys

from aioquic import asyncio as quic
from aioquic.quic import configuration
from aioquic.quic import connection
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid
import google_crc32c

ALPN = 'octavia-xdp-lab'
# One byte of configuration, the server ID, a nonce. aioquic uses no other
# random string of this length.
ID_LENGTH = 13


def server_id(member):
    """Return the result of oxp_quic_server_id() as bytes."""
    parsed = ipaddress.ip_address(member)
    packed = parsed.packed
    if parsed.version == 4:
        packed = bytes(10) + b'\xff\xff' + packed
    return google_crc32c.value(packed).to_bytes(4, 'big')


class _Random:
    """Replaces the module os where aioquic generates connection IDs."""

    def __init__(self, member):
        self._server_id = server_id(member)

    def __getattr__(self, name):
        return getattr(os, name)

    def urandom(self, length):
        random = os.urandom(length)
        if length != ID_LENGTH:
            return random
        # The first three bits are configuration 0, the other bits are random.
        return bytes([random[0] & 0x1f]) + self._server_id + random[5:]


def _certificate(name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = x509.CertificateBuilder(
        subject_name=subject, issuer_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(days=1),
        not_valid_after=now + datetime.timedelta(days=1),
    ).sign(key, hashes.SHA256())
    return certificate, key


async def serve(vip, port, name, member):
    """Serve forever."""
    connection.os = _Random(member)
    settings = configuration.QuicConfiguration(
        is_client=False, alpn_protocols=[ALPN],
        connection_id_length=ID_LENGTH)
    settings.certificate, settings.private_key = _certificate(name)

    def stream(reader, writer):
        async def answer():
            data = await reader.read()
            writer.write(name.encode() + b' ' + data)
            writer.write_eof()
        tasks.add(task := asyncio.ensure_future(answer()))
        task.add_done_callback(tasks.discard)

    tasks = set()
    await quic.serve(vip, port, configuration=settings,
                     stream_handler=stream)
    await asyncio.Event().wait()


if __name__ == '__main__':
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]))

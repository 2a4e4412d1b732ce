# SPDX-License-Identifier: Apache-2.0
"""Packets with forged sources to one address, of all kinds that cost work.

``python -m … ADDRESS PORT RATE`` sends so many a second, ten minutes at most.
It needs nothing but the right to open raw sockets.
"""

import random
import socket
import sys
import time

from scapy.layers import inet
from scapy.packet import Raw

# So many different ones, of sources of TEST-NET-2.
PACKETS = 3000
SOURCES = '198.51.100.'
SECONDS_MAX = 600
BATCH = 50


def kinds(address, port):
    """Functions that make a packet of a source."""
    def ip(source, **more):
        return inet.IP(src=source, dst=address, **more)

    def quoting(source, sport):
        return inet.IP(src=address, dst=source) / inet.TCP(
            sport=port, dport=sport)

    return (
        lambda source, sport: ip(source) / inet.TCP(
            sport=sport, dport=port, flags='S'),
        # Of connections that nobody has.
        lambda source, sport: ip(source) / inet.TCP(
            sport=sport, dport=port, flags='A', seq=sport),
        lambda source, sport: ip(source) / inet.TCP(
            sport=sport, dport=port, flags='R', seq=sport),
        # Too large for a tunnel, and not to be cut.
        lambda source, sport: ip(source, flags='DF') / inet.TCP(
            sport=sport, dport=port, flags='A') / Raw(bytes(1440)),
        lambda source, sport: ip(source, flags='MF', id=sport) / inet.TCP(
            sport=sport, dport=port, flags='A') / Raw(bytes(512)),
        lambda source, sport: ip(source, frag=70, id=sport, proto=6) / Raw(
            bytes(64)),
        lambda source, sport: ip(source) / inet.ICMP(id=sport),
        lambda source, sport: ip(source) / inet.ICMP(
            type=3, code=4, nexthopmtu=68) / Raw(
                bytes(quoting(source, sport))[:28]),
        lambda source, sport: ip(source) / inet.UDP(
            sport=sport, dport=port) / Raw(b'x'),
    )


def packets(address, port):
    chooser = random.Random(7)
    making = kinds(address, port)
    return [bytes(making[number % len(making)](
        f'{SOURCES}{chooser.randrange(1, 255)}',
        chooser.randrange(1024, 65536))) for number in range(PACKETS)]


def send(made, rate, send_one):
    """Send packets in turn, so many a second, ten minutes at most."""
    print('sending', flush=True)
    begin, sent = time.monotonic(), 0
    while (passed := time.monotonic() - begin) < SECONDS_MAX:
        if sent >= passed * rate:
            time.sleep(BATCH / rate)
        for number in range(sent, sent + BATCH):
            send_one(made[number % len(made)])
        sent += BATCH


def main(address, port, rate):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW,
                       socket.IPPROTO_RAW) as sender:
        send(packets(address, port), rate,
             lambda packet: sender.sendto(packet, (address, 0)))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

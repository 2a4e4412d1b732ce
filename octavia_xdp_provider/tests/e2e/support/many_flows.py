# SPDX-License-Identifier: Apache-2.0
"""Datagrams of many flows to one service, which answers each.

``python -m … ADDRESS PORT RATE`` sends so many a second, ten minutes at most.
Each flow sends three times within a moment, so that whoever keeps flows has
them as confirmed ones. It needs nothing but the right to open raw sockets.
"""

import socket
import sys
import time

from scapy.layers import inet
from scapy.packet import Raw

FLOWS = 24000
# So many flows send in turn, before others begin.
BLOCK = 300
TIMES = 3
SOURCES = '198.51.100.'
SOURCES_NUMBER = 250
SECONDS_MAX = 600


def packet(address, port, number):
    return bytes(inet.IP(
        src=f'{SOURCES}{1 + number % SOURCES_NUMBER}', dst=address) / inet.UDP(
            sport=2000 + number // SOURCES_NUMBER, dport=port) / Raw(b'x'))


def main(address, port, rate):
    print('sending', flush=True)
    begin, sent = time.monotonic(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW,
                       socket.IPPROTO_RAW) as sender:
        while time.monotonic() - begin < SECONDS_MAX:
            first = sent // TIMES % FLOWS
            block = [packet(address, port, number)
                     for number in range(first, first + BLOCK)]
            for _ in range(TIMES):
                for data in block:
                    sender.sendto(data, (address, 0))
                    sent += 1
                ahead = sent / rate - (time.monotonic() - begin)
                if ahead > 0:
                    time.sleep(ahead)


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

# SPDX-License-Identifier: Apache-2.0
"""A child of ExaBGP that hands its pipes to a test.

``python -m ...pipe_passing SOCKET``: sends its standard input and output to
whoever listens on that Unix socket, and lives until the listener closes.
"""

import socket
import sys


def main():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        socket.send_fds(connection, [b'!'], [sys.stdin.fileno(),
                                             sys.stdout.fileno()])
        connection.recv(1)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Members on loopback that answer with what they were asked."""

import http.server
import json
import socket
import socketserver
import threading

# How often a server looks whether it shall end.
POLL_S = 0.02


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with its member's name, the path and the headers, and sets the
    cookie that the path asks for."""

    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        body = json.dumps({
            'member': self.server.name, 'path': self.path,
            'headers': {name.lower(): self.headers.get_all(name)
                        for name in self.headers}}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        if self.path.startswith('/login'):
            self.send_header('Set-Cookie', f'JSESSIONID={self.server.name}')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    name = None


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    name = None

    def get_request(self):
        request, _address = super().get_request()
        return request, ('unix', 0)


def serve(case, server, name):
    server.name = name
    # A client that goes away is none of a member's errors here.
    server.handle_error = lambda *arguments: None
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,),
                              daemon=True)
    thread.start()
    case.addCleanup(thread.join)
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)


def start(case, name):
    """Start a member; return its port."""
    server = _Server(('127.0.0.1', 0), _Handler)
    serve(case, server, name)
    return server.server_address[1]


def start_at(case, name, path):
    """Start a server at a socket of the file system."""
    serve(case, _UnixServer(path, _Handler), name)


def first_line(case):
    """Start a member that answers a connection with its first line; return
    its port."""
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(self.rfile.readline())

    server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    serve(case, server, 'first line')
    return server.server_address[1]


def read_all(port, sent=b'', source='127.0.0.1'):
    """Return what a port of loopback answers."""
    with socket.create_connection(('127.0.0.1', port), 20,
                                  (source, 0)) as client:
        client.sendall(sent)
        return b''.join(iter(lambda: client.recv(65536), b''))

"""The server ends with one SIGTERM, whatever its clients do."""

import re
import socket
import urllib.request

import pytest

from bench.server import Server

pytestmark = pytest.mark.slow


def test_a_client_that_does_not_read_holds_up_no_end(tmp_path):
    server = Server(tmp_path)
    server.start()
    with urllib.request.urlopen(server.url) as answer:
        script = re.findall(r'src="\.?/?([^"]+\.js)"', answer.read().decode())[0]
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        head = f"GET /{script} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        client.sendall(40 * head.encode())
        client.recv(1)
        server.stop()  # fails after a minute

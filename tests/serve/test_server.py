"""The socket that the service listens on."""

from __future__ import annotations

import socket

import pytest

from hashstream.serve.server import listening_socket


def test_small_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio sets TCP_NODELAY on the connections of a socket only where its protocol is named."""
    with listening_socket("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_an_error() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        listening.listen()
        with pytest.raises(OSError, match="in use"):
            listening_socket("127.0.0.1", listening.getsockname()[1])

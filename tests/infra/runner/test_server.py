"""A real function within the limits of its connections."""

import contextlib
import socket
import sys
from pathlib import Path

import httpx

from tests.infra.processes import Process, listening_socket

PRIVATE = (Path(__file__).parents[2] / "events/telegram/001_private_text.json").read_bytes()


def test_three_hundred_silent_connections_do_not_keep_the_platform_out(environment):
    """With 256 file descriptors, without a limit, every request is reset, and the log says nothing."""
    environment = {**environment, "TELEGRAM_BOT_TOKEN": "7100200300:AAExample", "TELEGRAM_WEBHOOK_SECRET": "secret"}
    sock, port = listening_socket()
    with contextlib.ExitStack() as stack:
        stack.enter_context(sock)
        ingest = ("-m", "infra.runner", "ingest", "--fd", sock.fileno())
        process = Process(
            *("/bin/sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", sys.executable, *ingest),
            environment=environment,
            pass_fds=[sock.fileno()],
        )
        stack.callback(process.close)
        process.wait_for("function.ready")
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))

        with httpx.Client(timeout=60, trust_env=False) as client:
            reply = client.post(
                f"http://127.0.0.1:{port}/webhooks/telegram",
                content=PRIVATE,
                headers={"x-telegram-bot-api-secret-token": "secret"},
            )

        assert reply.status_code == 200
        lines = process.wait_for("connections.closed")
        assert lines[0]["limit"] == 128

"""A server of raw bytes for one test, and the client that talks to it."""

import asyncio
import contextlib
import ssl

import uvloop

from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import ANSWER_BYTES

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Takes requests one after the other on each connection, and answers with the next entry of *script*.

    An entry is the bytes of the answer; ``HANG`` never answers, ``END`` closes the connection.
    """

    HANG, END = object(), object()

    def __init__(self, *script):
        self.script = list(script)
        self.requests = []
        self.connections = 0

    async def __call__(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
                self.requests.append((head, await reader.readexactly(length)))
                for piece in self.script.pop(0) if len(self.script) > 1 else self.script[0]:
                    if piece is self.HANG:
                        await reader.read()
                    elif piece is self.END:
                        break
                    else:
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(0)
                else:
                    continue
                break


def talk(server, work, *, tls=None, **options):
    """Run *work* with a client and a function that posts to *server*."""

    async def go():
        client = HttpClient(**options)
        at_work = set()

        async def serve(reader, writer):
            at_work.add(asyncio.current_task())
            with contextlib.suppress(ConnectionError):
                await server(reader, writer)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        port = listening.sockets[0].getsockname()[1]
        scheme = "https" if tls else "http"

        async def post(body=b"{}", path="/bot1:TOKEN/send", host="127.0.0.1", limit_bytes=ANSWER_BYTES, **headers):
            url = f"{scheme}://{host}:{port}{path}"
            answer = await client.request("POST", url, body, headers, limit_bytes=limit_bytes)
            return answer.status, answer.body

        try:
            async with asyncio.timeout(20):
                return await work(client, post)
        finally:
            await client.close()
            listening.close()
            await asyncio.gather(*at_work)

    return uvloop.run(go())

"""Connections of the HTTP client: reused, closed, and private."""

import asyncio
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.shared.runtime.http_server import OK, Server, talk


def test_a_connection_is_reused_and_concurrent_requests_have_their_own():
    server = Server([OK])

    async def work(_, post):
        for _ in range(3):
            await post()
        assert server.connections == 1
        await asyncio.gather(post(), post())
        assert server.connections == 2

    talk(server, work)


@pytest.mark.parametrize(
    "first",
    [
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
        [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
        [OK, Server.END],
        [OK + OK],
    ],
    ids=["close", "1.0", "closed after it", "two answers"],
)
def test_an_unusable_connection_is_not_reused(first):
    server = Server(first, [OK])

    async def work(_, post):
        await post()
        await asyncio.sleep(0.05)  # the server acts after its answer has arrived
        return await post()

    assert talk(server, work) == (200, b"ok")
    assert server.connections == 2


def test_bytes_on_an_idle_connection_do_not_answer_the_next_request():
    late = asyncio.Event()

    async def server(reader, writer):
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)
        if not late.is_set():
            await late.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async def work(_, post):
        await post()
        late.set()
        await asyncio.sleep(0.05)
        return await post()

    assert talk(server, work) == (200, b"ok")


def test_a_cancelled_request_leaves_no_answer_for_the_next():
    server = Server([b"HTTP/1.1 200 OK\r\n", Server.HANG], [OK])

    async def work(_, post):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await post()
        return await post()

    assert talk(server, work) == (200, b"ok")
    assert server.connections == 2


def test_a_long_idle_connection_is_not_reused():
    server = Server([OK])

    async def work(_, post):
        await post()
        await asyncio.sleep(0.05)
        await post()

    talk(server, work, idle_limit_s=0.02)
    assert server.connections == 2


def test_closing_aborts_running_requests():
    server = Server([b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf", Server.HANG])

    async def work(client, post):
        asking = asyncio.create_task(post())
        while not server.requests:  # noqa: ASYNC110 - the server is a function
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(NoAnswer):
            await asking

    talk(server, work)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(*plain))
    return folder / "cert.pem", folder / "key.pem"


def _serving(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


def test_tls_works_with_a_trusted_host(certificate):
    server = Server([OK])
    trusted = ssl.create_default_context(cafile=certificate[0])

    async def work(_, post):
        await post(host="localhost")
        return await post(host="localhost")

    assert talk(server, work, tls=_serving(certificate), trusted=trusted) == (200, b"ok")
    assert server.connections == 1


def test_the_event_loop_goes_on_while_the_trusted_certificates_are_read(certificate, monkeypatch):
    made_by, make = [], ssl.create_default_context

    def seen(*args):
        made_by.append(threading.current_thread())
        return make(*args)

    async def work(_, post):
        monkeypatch.setattr(ssl, "create_default_context", seen)
        with pytest.raises(RequestNotSent, match=r"^SSLCertVerificationError$"):
            await post(host="localhost")
        return threading.current_thread()

    loop = talk(Server([OK]), work, tls=_serving(certificate))
    (thread,) = made_by
    assert thread is not loop


@pytest.mark.parametrize(("is_trusted", "host"), [(False, "localhost"), (True, "127.0.0.1")])
def test_nothing_is_sent_to_an_untrusted_host(certificate, is_trusted, host):
    """One host with a self-signed certificate, and one with the certificate of another name."""
    server = Server([OK])
    trusted = ssl.create_default_context(cafile=certificate[0]) if is_trusted else None

    async def work(_, post):
        with pytest.raises(RequestNotSent, match=r"^SSLCertVerificationError$"):
            await post(host=host)

    talk(server, work, tls=_serving(certificate), trusted=trusted)
    assert server.requests == []

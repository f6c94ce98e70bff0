import pytest

from shared.core import http_head

WELL_FORMED = [
    *("", "127.0.0.1", "127.0.0.1:3777", "localhost", "postroom.example:443", "xn--bcher-kva.example", "a_b:80"),
    *("[::1]", "[::1]:3777", "[::ffff:127.0.0.1]", "name:", "%C3%A9.example"),
]
MALFORMED = [
    *("[::1", "::1", "[::1]x", "[nonsense]", "[:::]", "a b", "a/b", "a@b", "http://a", "a:b", "a:123456", "a,b:1:2"),
    *("é.example", "a\tb", "a" * 301),
]


@pytest.mark.parametrize("host", WELL_FORMED)
def test_names_addresses_and_ports_are_hosts(host):
    assert http_head.host_problem(host) is None


@pytest.mark.parametrize("host", MALFORMED)
def test_anything_else_is_no_host(host):
    assert "Host header" in http_head.host_problem(host)
    assert not http_head.is_loopback(host)


@pytest.mark.parametrize("path", ["/", "/api/agents", "/a b", "/é", "/\u2028", "/a%0Ab"])
def test_a_path_of_letters_is_well_formed(path):
    assert http_head.path_problem(path) is None


@pytest.mark.parametrize("path", ["/a\n", "/a\nb", "\r/", "/\x00", "/\x7f", "/\t"])
def test_a_path_with_a_control_character_is_not(path):
    assert "control character" in http_head.path_problem(path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:3777", "LOCALHOST", "[::1]:1"])
def test_this_machine_has_three_names(host):
    assert http_head.is_loopback(host)


@pytest.mark.parametrize("host", ["", "example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", "0"])
def test_no_other_name_is_of_this_machine(host):
    assert not http_head.is_loopback(host)


PROXIED = [
    *("Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "X-FORWARDED-SSL", "X-Forwarded"),
    *("X-Real-IP", "Via", "CF-Connecting-IP", "Cf-Ray", "True-Client-IP", "Fly-Client-IP", "Tailscale-User-Login"),
]


@pytest.mark.parametrize("name", PROXIED)
def test_the_headers_of_proxies_are_known(name):
    assert http_head.proxy_header(["host", name, "accept"]) == name.lower()


def test_the_headers_of_clients_are_no_sign_of_a_proxy():
    names = ["Host", "Accept", "User-Agent", "Origin", "Referer", "Authorization", "Content-Type", "X-Requested-With"]
    names += ["X-Telegram-Bot-Api-Secret-Token", "Sec-Fetch-Site", "Last-Event-ID", "X-Request-Id", "Traceparent"]
    assert http_head.proxy_header(names) is None

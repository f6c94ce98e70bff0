import pytest
from aiohttp.test_utils import make_mocked_request

from emulator.platforms.control import _is_own_page

PAGES = {
    "a program": ({"Host": "127.0.0.1:8081"}, True),
    "our page": ({"Host": "127.0.0.1:8081", "Origin": "http://127.0.0.1:8081"}, True),
    "our page through the gateway": ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, True),
    "a page elsewhere": ({"Host": "127.0.0.1:8081", "Origin": "https://evil.example"}, False),
    "a name made to point here": ({"Host": "evil.example:8081", "Origin": "http://evil.example:8081"}, False),
    "the same, reading": ({"Host": "evil.example:8081"}, False),
    "no host at all": ({"Host": "[::1"}, False),
}


@pytest.mark.parametrize(("headers", "is_own"), PAGES.values(), ids=PAGES)
def test_a_page_of_another_site_may_not_use_the_fakes(headers, is_own):
    assert _is_own_page(make_mocked_request("GET", "/chat/telegram", headers=headers)) is is_own

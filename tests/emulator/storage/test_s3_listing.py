"""A listing says what moto's would."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from emulator.storage.s3_listing import MOST_KEYS, Listing, read_listing
from emulator.storage.s3_requests import read_request
from tests.emulator.harness import fetch
from tests.emulator.storage.test_s3_server import SIGNED, s3_server

KEYS = ["db/0000/1-1.ltx", "db/0000/2-2.ltx", "db/0000/3-3.ltx", "db/0001/1-3.ltx", "db/ü & <b>.txt", "lease.json"]
AS_MOTO = {"fetch-owner": ""}  # an option that only moto knows, and that changes nothing where it is empty


def of(query: str, **changed: str) -> Listing | None:
    signed = {"HTTP_AUTHORIZATION": SIGNED["Authorization"]}
    asked = read_request({"REQUEST_METHOD": "GET", "PATH_INFO": "/b", "QUERY_STRING": query, **signed, **changed})
    return None if asked is None or asked.operation != "list" else read_listing(asked.query)


def test_the_listings_of_litestream_are_ours() -> None:
    assert of("list-type=2&prefix=db%2F0000%2F") == Listing("db/0000/", "", MOST_KEYS, False, False)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "list-type=1&prefix=db",
        "prefix=db",
        "list-type=2&delimiter=%2F&start-after=db",
        "list-type=2&fetch-owner=true",
        "list-type=2&encoding-type=none",
        "list-type=2&max-keys=0",
        "list-type=2&max-keys=1001",
        "list-type=2&max-keys=-1",
        f"list-type=2&max-keys={'9' * 5000}",
        "list-type=2&max-keys=%C2%B2",
        "list-type=2&prefix=a&prefix=b",
        "list-type=2&prefix=%FF",
        "list-type=2&continuation-token=",
        "list-type=2&continuation-token=e8ed96f17f8b05fd1547af009f8d165b",
        "list-type=2&continuation-token=after-%21",
        "list-type=2&continuation-token=after-_w==",
        "list-type=2&continuation-token=after-",
        "versioning",
    ],
    ids=lambda query: query[:50],
)
def test_moto_sees_every_other_listing(query: str) -> None:
    assert of(query) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"REQUEST_METHOD": "POST"},
        {"HTTP_AUTHORIZATION": ""},
        {"CONTENT_LENGTH": "4"},
        {"HTTP_X_AMZ_OPTIONAL_OBJECT_ATTRIBUTES": "RestoreStatus"},
    ],
    ids=str,
)
def test_moto_sees_every_other_request(changed: dict[str, str]) -> None:
    assert of("list-type=2") is not None
    assert of("list-type=2", **changed) is None


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a bucket that holds KEYS."""
    folder: Path = tmp_path_factory.mktemp("s3")
    with s3_server(folder) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        for number, key in enumerate(KEYS):
            assert fetch(f"{url}/{quote(key)}", method="PUT", body=b"x" * number, headers=SIGNED)[0] == 200
        yield url


def listed(url: str, **options: str) -> dict[str, list[str]]:
    """The texts of a listing by the path of their element, in order."""
    status, body = fetch(f"{url}?{urlencode({'list-type': '2', **options})}", headers=SIGNED)
    assert status == 200, body
    texts: dict[str, list[str]] = {}
    for element in ET.fromstring(body):  # noqa: S314 - from our own server
        for each in element if len(element) else [element]:
            texts.setdefault(f"{element.tag}/{each.tag}", []).append(each.text or "")
    return texts


@pytest.mark.e2e
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix": "db/0000/"},
        {"prefix": "nothing"},
        {"prefix": "db/", "start-after": "db/0000/2-2.ltx"},
        {"start-after": "db/0000/2"},
        {"prefix": "db/ü & <"},
        {"encoding-type": "url"},
        {"encoding-type": "url", "prefix": "db/ü"},
        {"max-keys": "6"},
        {"delimiter": "/"},
        {"delimiter": "/", "prefix": "db/"},
        {"delimiter": "/", "prefix": "db/epoch_1/generations/"},
        {"delimiter": "1", "prefix": "db/", "encoding-type": "url"},
    ],
    ids=str,
)
def test_a_listing_is_as_motos(bucket: str, options: dict[str, str]) -> None:
    assert listed(bucket, **options) == listed(bucket, **options, **AS_MOTO)


@pytest.mark.e2e
def test_pages_of_a_listing_with_a_delimiter_have_every_line_once(bucket: str) -> None:
    options = {"delimiter": "/", "prefix": "db/", "max-keys": "1"}
    found: list[str] = []
    while True:
        page = {re.sub("{.*?}", "", path): texts for path, texts in listed(bucket, **options).items()}
        found += page.get("Contents/Key", []) + page.get("CommonPrefixes/Prefix", [])
        tokens = page.get("NextContinuationToken/NextContinuationToken")
        if tokens is None:
            break
        options["continuation-token"] = tokens[0]
    assert found == ["db/0000/", "db/0001/", "db/ü & <b>.txt"]


@pytest.mark.e2e
@pytest.mark.parametrize("most", [1, 2, 4])
def test_pages_have_every_object_once(bucket: str, most: int) -> None:
    found: list[str] = []
    options = {"max-keys": str(most)}
    while True:
        page = listed(bucket, **options)
        moto = listed(bucket, **{"max-keys": str(most), **({"start-after": found[-1]} if found else {})}, **AS_MOTO)
        [contents] = [texts for path, texts in page.items() if path.endswith("}Key")]
        assert [contents] == [texts for path, texts in moto.items() if path.endswith("}Key")]
        found += contents
        tokens = [texts for path, texts in page.items() if path.endswith("}NextContinuationToken")]
        if not tokens:
            break
        assert tokens[0][0].startswith("after-"), "this page came from moto"
        options = {"max-keys": str(most), "continuation-token": tokens[0][0]}
    assert found == sorted(KEYS)

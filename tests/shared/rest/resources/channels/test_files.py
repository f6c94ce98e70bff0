"""Files over the API: handed over as bytes, named by an id, sent with a response; never a path of this host."""

import json
import os
from pathlib import Path

import pytest

from shared.agents import session_files
from tests.api_client import ask, call, get, made, post
from tests.support import column, make_chat, row, wire

PNG = b"\x89PNG\r\n\x1a\nrest"


def upload(serving, content=PNG, name="chart.png"):
    return made(ask(serving, "POST", "/api/files", content=content, params={"name": name}))


def respond(serving, *files, message="Look", channel="discord", chat="300", **more):
    body = {"channel": channel, "sender": chat, "senderId": chat, "message": message, "files": list(files), **more}
    return post(serving, body, "/api/responses")


@pytest.fixture
def loft(conn):
    wire(conn, make_chat(conn, "300", "discord"))


def test_a_file_is_kept_under_an_id_with_what_its_content_says(serving, db):
    given = upload(serving)
    assert given | {"file": ""} == {
        "ok": True,
        "file": "",
        "name": "chart.png",
        "type": "image/png",
        "bytes": len(PNG),
        "kind": "photo",
    }
    (kept,) = Path(f"{db}.files", given["file"]).iterdir()
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (PNG, 0o600)


def test_its_bytes_are_on_the_disk_before_the_answer(serving, monkeypatch):
    synced = {}

    def fsync(fd):
        synced[Path(f"/proc/self/fd/{fd}").readlink().name] = os.fstat(fd).st_size

    monkeypatch.setattr(os, "fsync", fsync)
    upload(serving)
    assert synced["chart.png"] == len(PNG)


@pytest.mark.parametrize("when", [{"deliverAfter": 1_927_616_400_000}, {"recurrence": "0 9 * * *"}])
def test_it_is_not_sent_later_because_it_is_not_kept_so_long(serving, conn, loft, when):
    reply = respond(serving, upload(serving)["file"], **when)
    assert (reply.status_code, column(conn, "SELECT id FROM responses")) == (400, [])
    assert reply.json()["error"].startswith("files are kept for a week, so they can't be sent later")


def test_it_goes_out_with_the_response(serving, conn, loft):
    given = upload(serving)
    assert respond(serving, given["file"], given["file"]).status_code == 200
    (file,) = json.loads(row(conn, "responses")["files"])
    assert (Path(file["path"]).read_bytes(), file["name"], file["kind"]) == (PNG, "chart.png", "photo")
    assert row(conn, "responses")["chat_id"] is not None


def test_a_file_needs_no_text(serving, conn, loft):
    assert respond(serving, upload(serving)["file"], message="").status_code == 200
    assert row(conn, "responses")["message"] == ""


def test_a_client_that_fetches_gets_the_path(serving, conn):
    given = upload(serving)
    assert respond(serving, given["file"], channel="cli").status_code == 200
    (found,) = get(serving, "/api/responses/pending?channel=cli").json()
    (path,) = found["files"]
    assert Path(path).read_bytes() == PNG


NAMES = {
    "a path": ("../../etc/passwd", "_.._etc_passwd"),
    "a hidden file": (".bashrc", "bashrc"),
    "an option": ("--help", "help"),
    "controls": ("a\n\x00b.txt", "a__b.txt"),
    "nothing": ("...", "file"),
}


@pytest.mark.parametrize(("name", "kept"), NAMES.values(), ids=NAMES)
def test_a_name_steers_nothing(serving, db, name, kept):
    given = upload(serving, name=name)
    (path,) = Path(f"{db}.files", given["file"]).iterdir()
    assert path.name == given["name"] == kept


@pytest.mark.parametrize("file", ["/etc/passwd", "file_../../x", "../file_aaaaaaaa", "file_AAAAAAAA", "", "file_"])
def test_nothing_but_an_id_names_a_file(serving, conn, loft, file):
    assert respond(serving, file).status_code == 400
    assert column(conn, "SELECT id FROM responses") == []


def test_an_unknown_id_is_not_found(serving, conn, loft):
    reply = respond(serving, "file_aaaaaaaa")
    assert (reply.status_code, "hand it over again" in reply.json()["error"]) == (404, True)
    assert column(conn, "SELECT id FROM responses") == []


def test_an_empty_or_too_large_body_leaves_nothing(serving, db, monkeypatch):
    monkeypatch.setattr(session_files, "LARGEST_BYTES", 1000)  # a limit, so that no test writes 50 MiB
    empty, large = call(
        serving,
        ("POST", "/api/files", {"content": b""}),
        ("POST", "/api/files", {"content": b"x" * 1001}),
    )
    assert (empty.status_code, large.status_code) == (400, 413)
    assert list(Path(f"{db}.files").iterdir()) == []


def test_a_file_that_the_channel_does_not_take_is_refused_at_once(serving, conn, loft):
    large = upload(serving, b"x" * (10 * 1024 * 1024 + 1), "large.bin")
    reply = respond(serving, large["file"])
    assert (reply.status_code, "larger than 10 MiB" in reply.json()["error"]) == (400, True)
    wire(conn, make_chat(conn, "m1", "matrix"))
    reply = respond(serving, upload(serving)["file"], channel="matrix", chat="m1")
    assert (reply.status_code, "files can't be sent to matrix" in reply.json()["error"]) == (400, True)
    assert column(conn, "SELECT id FROM responses") == []


def test_at_most_twenty_files(serving, conn, loft):
    assert respond(serving, *[f"file_{number:08d}" for number in range(21)]).status_code == 400

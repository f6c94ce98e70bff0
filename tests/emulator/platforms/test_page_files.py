"""Files that the chat page serves: nothing in them runs."""

import pytest

TYPES = {
    "image/png": "image/png",
    "audio/ogg": "audio/ogg",
    "video/mp4": "video/mp4",
    "text/html": "application/octet-stream",
    "image/svg+xml": "application/octet-stream",
    "application/pdf": "application/octet-stream",
    "text/javascript": "application/octet-stream",
    "nonsense": "application/octet-stream",
}


@pytest.mark.parametrize(("mime", "served"), TYPES.items(), ids=TYPES)
def test_only_safe_types_are_shown_and_everything_else_is_a_download(play, mime, served):
    async def scenario(world):
        file = world.platforms._store.files.add("a.html", mime, b"<script>alert(1)</script>", now_ms=1)
        async with world.session.get(f"{world.platforms.url}/chat/files/{file.id}") as response:
            assert await response.read() == b"<script>alert(1)</script>"
            assert response.content_type == served
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "sandbox" in response.headers["Content-Security-Policy"]
            is_download = response.headers.get("Content-Disposition") == "attachment"
            assert is_download == (served == "application/octet-stream")

    play(scenario)


def test_an_unknown_file_is_not_found(play):
    async def scenario(world):
        async with world.session.get(f"{world.platforms.url}/chat/files/77") as response:
            assert (response.status, await response.json()) == (404, {"error": "there is no file 77"})

    play(scenario)

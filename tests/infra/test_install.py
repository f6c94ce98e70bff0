"""infra/install.sh on a host of its own: namespaces with their own files, network and processes, without systemd."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.template import deployment, host_files
from shared.db.engine import schema
from tests.other_user import needs_root

ROOT = Path(__file__).parents[2]
TEMPLATE = deployment.load(ROOT / "template.yaml")
COPIED = ("pyproject.toml", "constraints.txt", "template.yaml", "README.md", "infra", "shared", "functions", "emulator")

# What a host has at first: folders that nobody else sees, a loopback, and the stand-in for systemctl.
HOST = """
set -eu
for folder in /etc /opt /var/lib; do
    mkdir -p {tmp}/over$folder/up {tmp}/over$folder/work
    mount -t overlay overlay -o lowerdir=$folder,upperdir={tmp}/over$folder/up,workdir={tmp}/over$folder/work $folder
done
mount -t tmpfs run /run
{python} - <<END
import fcntl, socket, struct
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
END
mkdir -p {tmp}/bin
printf '#!/bin/sh\\nexec {python} {root}/tests/infra/systemctl.py "$@"\\n' > {tmp}/bin/systemctl
printf '#!/bin/sh\nexit 0\n' > {tmp}/bin/caddy
chmod +x {tmp}/bin/systemctl {tmp}/bin/caddy
mkdir -p /etc/caddy
export PATH={tmp}/bin:$PATH POSTROOM_INSTALL_WAIT=60
said() {{ POSTROOM_URL=http://127.0.0.1:3777 {python} -m emulator "$@"; }}
post() {{ {python} -c "import sys, urllib.request as u; u.urlopen(sys.argv[1], data=sys.argv[2].encode())" "$@"; }}
cd {root}
"""


LATER = "-- A table of a later release.\nCREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;\n"


@pytest.fixture
def host(tmp_path):
    """Runs shell lines on one new host; what they print."""

    def run(lines):
        script = HOST.format(tmp=tmp_path, python=sys.executable, root=ROOT) + lines
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    return run


def release(folder):
    """A checkout, whose setup takes the libraries of the tests in place of a network's."""
    folder.mkdir()
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    (folder / "infra/setup.sh").write_text(f"#!/bin/sh\nln -s {sys.prefix} $VENV\n")
    return folder


def test_every_function_gets_its_arguments_and_the_host_its_settings():
    files = dict(host_files.files(TEMPLATE))
    assert files["ingest.env"] == "ARGUMENTS=--port 9001 --timeout 10s\n"
    assert set(files) == {"host.env", *(f"{each.name}.env" for each in TEMPLATE.functions)}
    assert "POSTROOM_TICK_SECRET=" in files["host.env"]
    assert "# Read by ingest, dispatch, deliver, sweep:\n# TELEGRAM_BOT_TOKEN=\n" in files["host.env"]


def test_a_file_that_is_there_stays_and_a_new_one_is_for_its_owner_alone(tmp_path, capsys):
    (tmp_path / "ingest.env").write_text("ARGUMENTS=--port 1\n")
    host_files.main(str(ROOT / "template.yaml"), str(tmp_path))
    assert (tmp_path / "ingest.env").read_text() == "ARGUMENTS=--port 1\n"
    assert (tmp_path / "host.env").stat().st_mode & 0o777 == 0o600
    assert f"wrote {tmp_path}/ingest.env\n" not in capsys.readouterr().out


def test_a_file_that_could_not_be_written_whole_is_not_there(tmp_path):
    """It would stay as it is at the next try."""
    command = [sys.executable, "-B", "-m", "infra.template.host_files", ROOT / "template.yaml", tmp_path]
    limit = resource.RLIMIT_FSIZE, (100, 100)  # bytes of a file
    done = subprocess.run(
        command, cwd=ROOT, preexec_fn=lambda: resource.setrlimit(*limit), capture_output=True, text=True, check=False
    )
    assert f"File too large: '{tmp_path / 'host.env'}'" in done.stderr
    assert not (tmp_path / "host.env").exists()
    host_files.main(str(ROOT / "template.yaml"), str(tmp_path))
    assert "POSTROOM_TICK_SECRET=" in (tmp_path / "host.env").read_text()


@needs_root
@pytest.mark.long
def test_a_host_is_installed_upgraded_and_rolled_back_and_keeps_its_messages(host, tmp_path):
    first, second, broken = (release(tmp_path / name) for name in ("first", "second", "broken"))
    number = max(schema.migrations())
    for later in (second, broken):
        later.joinpath(f"shared/db/migrations/{number + 1:04}_later.sql").write_text(LATER)
    (broken / "functions/ingest.py").write_text("raise RuntimeError('this release can not start')\n")
    printed = host(f"""
        {first}/infra/install.sh install --domain bot.example.com >&2
        grep -A1 webhooks /etc/caddy/postroom.caddy
        stat -c '%a %U' /var/lib/postroom /etc/postroom
        said agents set assistant --provider echo >&2
        post http://127.0.0.1:3777/api/message '{{"message": "before", "agent": "assistant"}}'
        {second}/infra/install.sh upgrade >&2
        ls /opt/postroom/shared/db/migrations | tail -n 1
        post http://127.0.0.1:3777/api/message '{{"message": "since", "agent": "assistant"}}'
        export POSTROOM_INSTALL_WAIT=8
        {broken}/infra/install.sh upgrade >&2 && exit 9
        ls /opt/postroom/shared/db/migrations | tail -n 1
        export POSTROOM_INSTALL_WAIT=60
        {second}/infra/install.sh rollback >&2
        ls /opt/postroom/shared/db/migrations | tail -n 1
        {second}/infra/install.sh rollback >&2 && exit 9
        said messages list --status completed --json
    """)
    lines = [line.strip() for line in printed.splitlines()]
    later, before = (
        f"{number + 1:04}_later.sql",
        max(path.name for path in (first / "shared/db/migrations").glob("*.sql")),
    )
    assert lines[:2] == ["handle /webhooks/* {", "reverse_proxy 127.0.0.1:9001"]
    assert lines[2:4] == ["700 postroom", "700 root"]
    assert lines[4:7] == [later, later, before]
    assert {each["text"] for each in json.loads("\n".join(lines[7:]))} == {"before", "since"}


# Another release beside this one: its setup and its waits take no time, and its processes are a stand-in for systemctl.
# What crashes is active again whenever it is asked for, and has one more restart.
CALLS = r"""
export POSTROOM_INSTALL_WAIT=6
cat > {tmp}/bin/systemctl <<'END'
#!/bin/sh
echo "$@" >>{tmp}/calls
[ "$*" != "$(cat {tmp}/interrupts 2>/dev/null)" ] || {{ rm {tmp}/interrupts; kill -9 $PPID; }}
case $1 in
    stop) rm -f {tmp}/restarts ;;
    is-active) [ ! -e {tmp}/down ] ;;
    show)
        [ ! -e {tmp}/crashes ] || echo one >>{tmp}/restarts
        cat {tmp}/restarts 2>/dev/null | wc -l
        ;;
esac
END
printf '#!/bin/sh\n' > {tmp}/bin/sleep
chmod +x {tmp}/bin/sleep
"""
PROBE = """import pathlib, sys
is_standby = pathlib.Path("{tmp}/standby").exists()
sys.exit(not is_standby if sys.argv[2:] else is_standby or pathlib.Path("{tmp}/crashes").exists())
"""


@pytest.fixture
def calls(host, tmp_path):
    """As ``host``, where a call of systemctl is a line of the file ``calls``, and nothing runs."""
    return lambda lines: host(CALLS.format(tmp=tmp_path) + lines)


def small(folder, tmp, name="first"):
    """A release of files alone."""
    made = folder / name
    for each in ("shared", "functions", "emulator"):
        (made / each).mkdir(parents=True)
    shutil.copytree(ROOT / "infra", made / "infra")
    for each in ("pyproject.toml", "constraints.txt", "template.yaml"):
        shutil.copy(ROOT / each, made)
    (made / "README.md").write_text(f"{name}\n")
    python = f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n'
    (made / "infra/setup.sh").write_text(
        f"#!/bin/sh\nmkdir -p $VENV/bin\ncat >$VENV/bin/python <<'END'\n{python}END\nchmod +x $VENV/bin/python\n"
    )
    (made / "infra/probe.py").write_text(PROBE.format(tmp=tmp))
    return made


@needs_root
def test_a_release_can_be_read_by_its_user_and_changed_by_root_alone(calls, tmp_path):
    """The checkout may be of another user, and root's files for root alone (a umask of 077)."""
    first = small(tmp_path, tmp_path)
    printed = calls(f"""
        chmod -R go= {first}
        chown -R nobody {first}
        umask 077
        {first}/infra/install.sh install >&2
        cd /opt/postroom
        stat -c '%a %U' README.md infra .venv/bin .venv/bin/python
    """)
    assert printed.split("\n")[:-1] == ["644 root", "755 root", "755 root", "755 root"]


@needs_root
def test_an_installation_that_failed_is_continued_by_the_same_command(calls, tmp_path):
    first, second = (small(tmp_path, tmp_path, name) for name in ("first", "second"))
    printed = calls(f"""
        touch {tmp_path}/crashes
        {first}/infra/install.sh install --domain bot.example.com 2>&1 && exit 9
        rm {tmp_path}/crashes
        {first}/infra/install.sh install --domain bot.example.com >&2
        head -n 1 /etc/caddy/postroom.caddy
        {second}/infra/install.sh install 2>&1 && exit 9
        cat /opt/postroom-releases/*/README.md
    """)
    assert "Then: infra/install.sh install --domain bot.example.com\n" in printed
    assert "\nbot.example.com {\n" in printed
    assert printed.endswith("is installed already: infra/install.sh upgrade\nfirst\n")


@needs_root
def test_an_upgrade_that_was_broken_off_is_continued_and_releases_before_the_last_are_removed(calls, tmp_path):
    first, second, third = (small(tmp_path, tmp_path, name) for name in ("first", "second", "third"))
    printed = calls(f"""
        {first}/infra/install.sh install >&2
        {second}/infra/install.sh upgrade >&2
        rm {tmp_path}/calls
        {second}/infra/install.sh upgrade >&2
        grep -c '^start postroom-ticker' {tmp_path}/calls
        {third}/infra/install.sh upgrade >&2
        cat /opt/postroom-releases/*/README.md
    """)
    assert printed.split()[0] == "1"
    assert sorted(printed.split()[1:]) == ["second", "third"]


@needs_root
def test_an_upgrade_keeps_the_release_before_and_what_others_put_there(calls, tmp_path):
    """By its place, however the link names it, and on another disk too."""
    first, failed, second = (small(tmp_path, tmp_path, name) for name in ("first", "failed", "second"))
    (failed / "infra/setup.sh").write_text("#!/bin/sh\nexit 1\n")
    printed = calls(f"""
        mkdir /var/lib/releases
        ln -s /var/lib/releases /opt/postroom-releases
        {first}/infra/install.sh install >&2
        ln -sfn "$(readlink /opt/postroom)/" /opt/postroom
        cp -r /opt/postroom/. /opt/postroom-releases/copy
        echo copy >/opt/postroom-releases/copy/README.md
        {failed}/infra/install.sh upgrade >&2 && exit 9
        {second}/infra/install.sh upgrade >&2
        cat /opt/postroom-releases/*/README.md
        {second}/infra/install.sh rollback >&2
        cat /opt/postroom/README.md
    """)
    *kept, back = printed.split()
    assert sorted(kept) == ["copy", "first", "second"]
    assert back == "first"


@needs_root
@pytest.mark.parametrize(
    ("trouble", "runs", "said"),
    [
        ("none", "second", "install: Postroom runs as the standby: its functions serve when it takes over. Its"),
        ("down", "first", "install: api does not stay up, so /opt/postroom-releases/"),
        ("crashes", "first", "install: api does not stay up, so /opt/postroom-releases/"),
    ],
)
def test_a_standby_is_upgraded_though_its_functions_refuse_connections(calls, tmp_path, trouble, runs, said):
    first, second = (small(tmp_path, tmp_path, name) for name in ("first", "second"))
    printed = calls(f"""
        touch {tmp_path}/standby
        {first}/infra/install.sh install 2>&1
        touch {tmp_path}/{trouble}
        {second}/infra/install.sh upgrade 2>&1 || true
        cat /opt/postroom/README.md
    """)
    assert printed.endswith(f"\n{runs}\n")
    assert f"\n{said}" in printed
    assert "does not answer" not in printed


@needs_root
def test_a_function_of_a_standby_that_was_restarted_before_is_ready(calls, tmp_path):
    first = small(tmp_path, tmp_path)
    calls(f"""
        touch {tmp_path}/standby
        {first}/infra/install.sh install
        echo one >{tmp_path}/restarts
        {first}/infra/install.sh install
        {first}/infra/install.sh upgrade
    """)


@needs_root
def test_a_standby_goes_back_to_a_release_whose_probe_does_not_know_it(calls, tmp_path):
    first, second = (small(tmp_path, tmp_path, name) for name in ("first", "second"))
    (first / "infra/probe.py").write_text(PROBE.format(tmp=tmp_path).replace("not is_standby", "64"))
    printed = calls(f"""
        {first}/infra/install.sh install >&2
        touch {tmp_path}/standby
        {second}/infra/install.sh upgrade >&2
        {second}/infra/install.sh rollback >&2
        cat /opt/postroom/README.md
    """)
    assert printed == "first\n"


@needs_root
@pytest.mark.parametrize(
    "call", ["stop postroom-host", "daemon-reload", "start postroom-host", "start postroom-ticker"]
)
def test_a_rollback_that_was_interrupted_is_continued_by_the_same_command(calls, tmp_path, call):
    """Also where the earlier release is in place already, which has no release before, or another one."""
    first, second = (small(tmp_path, tmp_path, name) for name in ("first", "second"))
    printed = calls(f"""
        {first}/infra/install.sh install >&2
        {second}/infra/install.sh upgrade >&2
        echo '{call}' >{tmp_path}/interrupts
        {second}/infra/install.sh rollback >&2 && exit 9
        rm {tmp_path}/calls
        {second}/infra/install.sh rollback >&2
        grep '^start' {tmp_path}/calls | tail -n 1
        cat /opt/postroom/README.md
        {second}/infra/install.sh rollback 2>&1 && exit 9
        {second}/infra/install.sh upgrade >&2
        {second}/infra/install.sh rollback >&2
        cat /opt/postroom/README.md
    """)
    assert printed == "start postroom-ticker\nfirst\ninstall: there is no release to go back to\nfirst\n"


@needs_root
def test_an_upgrade_after_a_rollback_that_was_interrupted_can_be_taken_back(calls, tmp_path):
    first, second, third = (small(tmp_path, tmp_path, name) for name in ("first", "second", "third"))
    printed = calls(f"""
        {first}/infra/install.sh install >&2
        {second}/infra/install.sh upgrade >&2
        echo 'stop postroom-host' >{tmp_path}/interrupts
        {second}/infra/install.sh rollback >&2 && exit 9
        {third}/infra/install.sh upgrade >&2
        {third}/infra/install.sh rollback >&2
        cat /opt/postroom/README.md
    """)
    assert printed == "second\n"


@needs_root
def test_the_database_of_a_rollback_is_found_where_its_name_is_quoted(calls, tmp_path):
    first, second = (small(tmp_path, tmp_path, name) for name in ("first", "second"))
    for each, number in ((first, "0001"), (second, "0002")):
        (each / "shared/db/migrations").mkdir(parents=True)
        (each / f"shared/db/migrations/{number}_x.sql").touch()
    printed = calls(f"""
        {first}/infra/install.sh install >&2
        {second}/infra/install.sh upgrade >&2
        touch /var/lib/postroom/postroom.db
        sed -i 's#^POSTROOM_DB=.*#POSTROOM_DB="/var/lib/postroom/postroom.db"#' /etc/postroom/host.env
        printf '#!/bin/sh\necho "$@"\n' > {tmp_path}/bin/runuser
        chmod +x {tmp_path}/bin/runuser
        {second}/infra/install.sh rollback
    """)
    assert "POSTROOM_DB=/var/lib/postroom/postroom.db .venv/bin/python -m emulator rollback --yes --to 0001" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("install --domain https://bot.example.com/", "is not a domain name: say --domain bot.example.com"),
        ("install --domain", "--domain needs a name"),
        ("upgrade --domain bot.example.com", "infra/install.sh install --domain bot.example.com"),
    ],
)
def test_a_domain_that_would_serve_nothing_is_refused_first(tmp_path, words, said):
    """By anybody's hand: this host is no namespace, so the script must not take itself for root's."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    command = ["sh", ROOT / "infra/install.sh", *words.split()]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(f"{said}\n")

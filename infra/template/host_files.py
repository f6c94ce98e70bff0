"""Writes the environment files of one host's systemd units, by ``template.yaml``; a file that is there stays as it is.

``python -m infra.template.host_files template.yaml /etc/postroom``
"""

import itertools
import secrets
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from infra.template import deployment
from infra.template.specs import Deployment
from shared.db.engine.owner_only import replace_text

HOST = "host.env"
_HOST = """\
# The settings of all functions; infra/README.md lists them. After a change: systemctl restart 'postroom-*'
POSTROOM_DB=/var/lib/postroom/postroom.db
POSTROOM_AGENTS_DIR=/var/lib/postroom/agents
POSTROOM_LITESTREAM_SOCKET=/run/postroom/litestream.sock
POSTROOM_TICK_SECRET={tick_secret}
# A folder of this disk protects from nothing: name a bucket, s3://bucket/postroom, and the variables of its keys.
POSTROOM_REPLICA_URL=file:///var/lib/postroom/replica
"""


def files(template: Deployment) -> Iterator[tuple[str, str]]:
    """The names and texts of the files. Secrets stand there as comments, below the functions that read them."""
    readers = defaultdict(list)
    for each in template.functions:
        for name in each.secrets:
            readers[name].append(each.name)
        yield f"{each.name}.env", f"ARGUMENTS=--port {each.port} --timeout {each.timeout_ms // 1000}s\n"
    text = _HOST.format(tick_secret=secrets.token_urlsafe(24))
    del readers["POSTROOM_TICK_SECRET"]
    for functions, of in itertools.groupby(readers, key=readers.__getitem__):
        text += f"\n# Read by {', '.join(functions)}:\n" + "".join(f"# {name}=\n" for name in of)
    yield HOST, text


def main(template: str, folder: str) -> None:
    """Write what is missing, for this user alone; say which."""
    for name, text in files(deployment.load(Path(template))):
        path = Path(folder) / name
        if not path.exists():
            replace_text(path, text)  # a file that a full disk left empty would stay so
            sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

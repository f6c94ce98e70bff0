"""``emulator version``: the versions of Postroom and of the software that it runs on."""

from emulator.base.version import versions
from emulator.cli import output
from emulator.cli.commands import frame
from emulator.cli.output import FactList, result


def version(as_json: frame.Json = False) -> None:
    """Print the versions of Postroom and of the software that it runs on."""
    found = versions()
    output.write(result(found, FactList(found)), as_json=as_json)

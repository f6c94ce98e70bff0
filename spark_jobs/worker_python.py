"""The Python of Spark's workers on this machine: a script that imports pyspark from where this process did.

Spark puts ``pyspark.zip`` before everything else on the path of its workers. Python keeps no bytecode for a zip file,
so each of the five processes of a small job would compile pyspark for most of a second. An installed pyspark is
compiled already.
"""

import os
import shlex
import site
import sys
from pathlib import Path

import pyspark


def write(folder: Path, path: str) -> str:
    """The program for ``PYSPARK_PYTHON``: a script in *folder* that starts this Python, or this Python itself.

    It is this Python where pyspark is not installed for it, and where the file system lets no file be run.

    Args:
        path: the ``PYTHONPATH`` of the workers, in place of the one that Spark gives.
    """
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o700)
    may_run = is_installed(Path(pyspark.__file__)) and os.access(script, os.X_OK)
    return str(script) if may_run else sys.executable


def is_installed(module: Path) -> bool:
    """Whether every start of this Python finds the package of *module*; a notebook may have found it elsewhere."""
    roots = {*site.getsitepackages(), site.getusersitepackages()}
    return module.resolve().parent.parent in {Path(root).resolve() for root in roots}

#!/bin/sh
# Installs the client libraries of tests/clients/*.txt, in exactly these versions, for `make clients`.
#   infra/clients.sh FOLDER     into FOLDER/bots and FOLDER/hikari, unless they are there already
set -eu
cd "$(dirname "$0")/.."
folder=$1

fail() { printf 'clients: %s\n' "$*" >&2; exit 1; }

for name in bots hikari; do
    wanted=tests/clients/$name.txt venv=$folder/$name
    cmp -s "$wanted" "$venv/installed.txt" && continue
    printf 'clients: installing the libraries of %s into %s\n' "$wanted" "$venv" >&2
    rm -rf "$venv"
    "${VENV:-.venv}/bin/python" -m venv "$venv" || fail "Python could not make the folder $venv: its own words are above"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$wanted" >&2 ||
        fail "pip could not install them: its own words are above"
    "$venv/bin/python" -m pip check >&2 || fail "the versions of $wanted do not fit each other: mend the file"
    cp "$wanted" "$venv/installed.txt"  # last: with it the folder is whole
done

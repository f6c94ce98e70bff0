#!/bin/sh
# Installs the client libraries of tests/clients/*.txt, in exactly these versions, and promtool, for `make clients`.
#   infra/clients.sh FOLDER     into FOLDER/bots, hikari, readers and prometheus, unless they are there already
set -eu
cd "$(dirname "$0")/.."
folder=$1

fail() { printf 'clients: %s\n' "$*" >&2; exit 1; }

for name in bots hikari readers; do
    wanted=tests/clients/$name.txt venv=$folder/$name
    cmp -s "$wanted" "$venv/installed.txt" && continue
    printf 'clients: installing the libraries of %s into %s\n' "$wanted" "$venv" >&2
    rm -rf "$venv"
    "${VENV:-.venv}/bin/python" -m venv "$venv" || fail "Python could not make the folder $venv: its own words are above"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$wanted" >&2 ||
        fail "pip could not install them: its own words are above"
    "$venv/bin/python" -m pip check >&2 || fail "the versions of $wanted do not fit each other: correct the file"
    cp "$wanted" "$venv/installed.txt"  # last: with it the folder is whole
done

promtool=$folder/prometheus/promtool
[ -x "$promtool" ] && exit
mkdir -p "$folder/prometheus"
if found=$(command -v promtool); then ln -sf "$found" "$promtool"; exit; fi
command -v apt-get >/dev/null 2>&1 || fail "promtool is missing: install Prometheus, and try again"
echo "clients: unpacking promtool from Debian's package of Prometheus" >&2
cd "$folder/prometheus"
# Unpacked, not installed: the package starts a server.
{ apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } >&2 ||
    fail "apt-get could not fetch it: its own words are above"
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
rm prometheus_*.deb

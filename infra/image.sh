#!/bin/sh
# Prepares what `make image` needs, as root on Debian: the programs, podman-compose, and a base in the place of
# python:3.11-slim, which is Debian's own Python with the libraries of constraints.txt as files. No registry of images is asked.
#   infra/image.sh FOLDER     into FOLDER, unless it is there already
set -eu
cd "$(dirname "$0")/.."
folder=$(realpath -m "$1")
venv=${VENV:-.venv}

fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
say() { printf 'image: %s\n' "$*" >&2; }

[ "$(id -u)" = 0 ] || fail "only root can make the base and start its containers: sudo make image"
missing=
for program in buildah podman crun catatonit iptables ip debootstrap; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null 2>&1 || fail "these programs are missing:$missing. Install them, and try again"
    say "installing what is missing:$missing"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        buildah podman crun netavark aardvark-dns catatonit iptables iproute2 debootstrap; } >/dev/null ||
        fail "apt-get could not install them: its own words are above"
fi

mkdir -p "$folder"
wanted=tests/infra/compose.txt
if ! cmp -s "$wanted" "$folder/compose/installed.txt"; then
    say "installing podman-compose into $folder/compose"
    rm -rf "$folder/compose"
    "$venv/bin/python" -m venv "$folder/compose" || fail "Python could not make $folder/compose: its own words are above"
    "$folder/compose/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        -r "$wanted" >&2 || fail "pip could not install it: its own words are above"
    cp "$wanted" "$folder/compose/installed.txt"
fi

if ! cmp -s constraints.txt "$folder/wheels/constraints.txt"; then
    say "fetching the libraries of the image into $folder/wheels"
    rm -rf "$folder/wheels" "$folder/storage/.whole"
    mkdir -p "$folder/wheels"
    "$venv/bin/python" -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
        >"$folder/wheels/requirements.txt"
    "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --python-version 3.11 --only-binary :all: \
        -r "$folder/wheels/requirements.txt" -c constraints.txt -d "$folder/wheels" >&2 ||
        fail "pip could not fetch them: its own words are above"
    cp constraints.txt "$folder/wheels/constraints.txt"
fi

[ -e "$folder/storage/.whole" ] && exit
if [ ! -e "$folder/debian/.whole" ]; then
    say "making the base in $folder/debian (some minutes)"
    rm -rf "$folder/debian"
    debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates bookworm "$folder/debian" \
        >"$folder/debootstrap.log" 2>&1 || fail "debootstrap failed: its words are in $folder/debootstrap.log"
    ln -s python3 "$folder/debian/usr/bin/python"
    rm "$folder"/debian/usr/lib/python3*/EXTERNALLY-MANAGED
    printf '[global]\nno-index = true\nfind-links = /opt/wheels\n' >"$folder/debian/etc/pip.conf"
    touch "$folder/debian/.whole"
fi
b() { buildah --root "$folder/storage" --runroot "$folder/run" "$@" 2>>"$folder/buildah.log"; }
rm -rf "$folder/storage"
container=$(b from scratch) || fail "buildah failed: its words are in $folder/buildah.log"
b copy --quiet "$container" "$folder/debian" / >/dev/null
b copy --quiet "$container" "$folder/wheels" /opt/wheels >/dev/null
b config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
b commit --quiet --rm "$container" base >/dev/null || fail "buildah failed: its words are in $folder/buildah.log"
touch "$folder/storage/.whole"

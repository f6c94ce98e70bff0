#!/bin/sh
# Installs the agents of tests/agents/package.json, in exactly these versions, for `make agents`.
#   infra/agents.sh FOLDER     into FOLDER/node_modules, unless they are there already
set -eu
cd "$(dirname "$0")/.."
folder=$1
wanted=tests/agents/package.json

fail() { printf 'agents: %s\n' "$*" >&2; exit 1; }

names='claude codex opencode'
runs() { "$folder/node_modules/.bin/$1" --version >/dev/null 2>&1; }

if ! cmp -s "$wanted" "$folder/package.json"; then
    command -v npm >/dev/null 2>&1 || fail "npm is missing, which installs the agents: install Node.js 20 or newer with npm" \
        "(Debian: sudo apt-get install nodejs npm), and try again"
    printf 'agents: installing the programs of %s into %s (some 450 MB to fetch, 1.1 GB on disk)\n' "$wanted" "$folder" >&2
    rm -rf "$folder/node_modules" "$folder/installing" "$folder/package.json"
    mkdir -p "$folder/installing"
    cp "$wanted" "$folder/installing/package.json"
    npm install --prefix "$folder/installing" --no-package-lock --no-audit --no-fund --loglevel=error >&2 ||
        fail "npm could not install them: its own words are above"
    mv "$folder/installing/node_modules" "$folder/node_modules"
    rm -rf "$folder/installing"
    cp "$wanted" "$folder/package.json"  # last: with it the folder is whole
fi
for name in $names; do
    runs "$name" || fail "$folder/node_modules/.bin/$name does not run: delete $folder, and try again; if npm does not run the" \
        "scripts of packages here, allow it to (npm config set ignore-scripts false)"
done

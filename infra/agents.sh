#!/bin/sh
# Installs the programs of agents by the lock files in infra/programs. npm compares each file with its hash there, and runs
# no script of a package: these packages hold the program itself, so nothing needs Node.js afterwards.
#   infra/agents.sh FOLDER [NAME…]     into FOLDER, linked in FOLDER/bin; all that run here where none is named
set -eu
cd "$(dirname "$0")/.."
fail() { printf 'agents: %s\n' "$*" >&2; exit 1; }

[ $# -gt 0 ] || fail "name the folder that gets the programs: infra/agents.sh FOLDER [NAME…]"
folder=$1
shift

machine=$(uname -sm)
case $machine in
    'Linux x86_64') cpu=x64 ;;
    'Linux aarch64' | 'Linux arm64') cpu=arm64 ;;
    *) fail "the lock files name programs for Linux on x86-64 or arm64, and this machine is $machine" ;;
esac

runs_here() { grep -q "\"$cpu\"" "infra/programs/$1/package-lock.json"; }

if [ $# -eq 0 ]; then
    for name in claude codex opencode; do
        if runs_here "$name"; then set -- "$@" "$name"; else
            printf 'agents: without %s, which is locked for other machines than this one (%s)\n' "$name" "$machine" >&2
        fi
    done
fi

install() {  # $1: the program; $2: where its package has it
    wanted=infra/programs/$1
    runs_here "$1" || fail "$wanted/package-lock.json has no $1 for this machine ($machine):" \
        "leave it out, or install it yourself and name its path as 'program' in the agent's config"
    cmp -s "$wanted/package-lock.json" "$folder/$1/package-lock.json" && return
    command -v npm >/dev/null 2>&1 || fail "npm is missing, which installs the agents: install Node.js 18 or newer with npm" \
        "(Debian: sudo apt-get install nodejs npm), and try again"
    printf 'agents: installing %s into %s (some 150 MB to fetch, up to 400 MB on disk)\n' "$1" "$folder" >&2
    new=$folder/installing
    rm -rf "$new"
    mkdir -p "$new" "$folder/bin"
    cp "$wanted/package.json" "$wanted/package-lock.json" "$new/"
    npm ci --prefix "$new" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        fail "npm could not install $1: its own words are above"
    # npm leaves out, without a word, what is not the file of the lock file.
    for program in "$new"/node_modules/$2; do
        [ -x "$program" ] || fail "npm installed no $1: it got a file with another hash than $wanted/package-lock.json names." \
            "npm's log has both: npm ci --prefix $new --ignore-scripts --loglevel=silly"
    done
    rm -rf "${folder:?}/$1"
    mv "$new" "$folder/$1"
    ln -sf "../$1/${program#"$new"/}" "$folder/bin/$1"
}

for name; do
    case $name in
        claude) install claude '@anthropic-ai/claude-code-linux-*/claude' ;;
        codex) install codex '@openai/codex-linux-*/vendor/*/bin/codex' ;;
        opencode) install opencode 'opencode-linux-*/bin/opencode' ;;
        *) fail "'$name' is no program of an agent: say claude, codex or opencode" ;;
    esac
    "$folder/bin/$name" --version >/dev/null 2>&1 || fail "$folder/bin/$name does not run: delete $folder, and try again"
done

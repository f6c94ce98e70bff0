#!/bin/sh
# Prepares .venv; the machine needs nothing but Python 3.11 or newer.
#   infra/setup.sh run    for `make run`
#   infra/setup.sh dev    also for the tests, the checks, Spark and the benchmarks
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }

find_python() {
    for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        if command -v "$name" >/dev/null 2>&1 && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    fail "Python 3.11 or newer was not found; install it, or name it: make PYTHON=/path/to/python3.11 run"
}

install_packages() {  # $1: their purpose; the rest: Debian packages
    what=$1; shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "setup: installing $* for $what"
        apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    else
        fail "$what is missing: install it (Debian: sudo apt-get install $*) and try again"
    fi
}

java_is_ready() {
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        [ -n "$java" ] || continue
        version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || continue
        [ "${version:-0}" -ge 17 ] && return 0
    done
    return 1
}

make_venv() {
    [ -x .venv/bin/python ] && return
    python=$(find_python)
    # Debian's Python comes without ensurepip
    "$python" -c 'import ensurepip' 2>/dev/null || install_packages "Python's venv module" \
        "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    "$python" -m venv .venv
}

install() {  # $1: extras
    stamp=.venv/.ready-$mode
    [ -e "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && return
    say "setup: installing Postroom into .venv (once; about a minute)"
    .venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[$1]"
    touch "$stamp"
}

mode=${1:-run}
make_venv
case $mode in
    run) [ -e .venv/.ready-dev ] || install emulator ;;
    dev)
        install emulator,spark,dev,bench
        java_is_ready || install_packages "Java 17, for Spark," openjdk-17-jre-headless
        java_is_ready || fail "Java 17 or newer is needed for Spark; set JAVA_HOME to it"
        ;;
    *) fail "say run or dev" ;;
esac

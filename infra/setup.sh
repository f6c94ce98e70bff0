#!/bin/sh
# Prepares .venv, or the folder that VENV names; the machine needs nothing but Python 3.11 or newer.
#   infra/setup.sh run    for `make run`
#   infra/setup.sh dev    also for the tests, the checks, Spark and the benchmarks
#   infra/setup.sh browser    a browser for `make browser`
#   infra/setup.sh jdbc       a jar for `make bench` to compare with
#   infra/setup.sh docs       also for `make docs`
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}

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
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "$what is missing: install it (Debian: sudo apt-get install $*) and try again"
    fi
    say "setup: installing $* for $what (about a minute)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null ||
        fail "apt-get could not install $* ($what): its own words are above"
}

install_leash() {  # bubblewrap, which holds agents' programs in; all else works without it
    command -v bwrap >/dev/null 2>&1 && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "setup: installing bubblewrap, the leash of agents' programs"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap; } \
            >/dev/null && return
    fi
    say "setup: bubblewrap is not installed, so programs of agents (claude, codex, command …) run without a leash: they can read"
    say "setup: and change what you can, also Postroom's database and tokens. To have one: sudo apt-get install bubblewrap"
}

java_version() {  # the major version of the Java that Spark would start; 0: none
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=
    echo "${version:-0}"
}

check_java() {
    [ "$(java_version)" -ge 17 ] && return
    if [ -n "${JAVA_HOME:-}" ]; then
        fail "Spark needs Java 17 or newer, and JAVA_HOME ($JAVA_HOME) is not that: set it to one, or unset it"
    fi
    # The distribution's default: no version of Java is in every Debian and Ubuntu.
    install_packages "Java for Spark" default-jre-headless
    [ "$(java_version)" -ge 17 ] || fail "Spark needs Java 17 or newer, and this system's default is Java $(java_version): install a newer one, and set JAVA_HOME to it"
}

make_venv() {
    # Also where a start was broken off, or the Python that made it is gone from the system.
    "$venv/bin/python" -c 'import pip' 2>/dev/null && return
    python=$(find_python)
    say "setup: making $venv with $python"
    # Debian's Python comes without ensurepip
    "$python" -c 'import ensurepip' 2>/dev/null || install_packages "Python's venv module" \
        "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    rm -f "$venv"/.ready-* "$venv"/bin/python*  # venv keeps a link that is there, wherever it leads
    "$python" -m venv "$venv" || fail "$python could not make $venv: its own words are above"
}

progress() {  # what pip does now, from its log
    if grep -q '^Installing collected packages' "$log"; then
        echo "unpacking $(sed -n 's/^Installing collected packages: //p' "$log" | tr ',' '\n' | grep -c .) packages"
    else
        newest=$(sed -n 's/^Collecting \([A-Za-z0-9._-]*\).*/\1/p' "$log" | tail -n 1)
        echo "$(grep -c '^Collecting ' "$log") packages found so far${newest:+, the newest is $newest}"
    fi
}

run_pip() {  # pip's own words go to $log; every five seconds this says how far it is
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@" >"$log" 2>&1 &
    pip=$!
    trap 'kill "$pip" 2>/dev/null; exit 130' INT TERM  # a background process does not get Ctrl-C
    seconds=0
    while kill -0 "$pip" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ $((seconds % 5)) = 0 ] && say "setup: $seconds s: $(progress)"
    done
    trap - INT TERM
    wait "$pip"
}

compile_packages() {  # pip would do this on one core
    say "setup: compiling the packages"
    # Nothing imports the tests of libraries, the tools and most of moto. A library may have a file for another Python; it
    # stays as it is, as with pip.
    unused='/(tests|pip|setuptools|mypyc?)/|/moto/(?!core|moto|s3|utilities)[a-z0-9_]+/'
    "$venv/bin/python" -m compileall -qq -j 0 -x "$unused" "$venv/lib" >>"$log" 2>&1 || true
}

install() {  # $1: extras
    stamp=$venv/.ready-$mode
    log=$venv/setup.log
    [ -e "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && return
    install_leash
    say "setup: installing Postroom and its libraries into $venv (once; a minute or two)"
    # The variables reach what pip starts to build a package: by the first one a pip before 25.3, by the second one later ones.
    export PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
    if ! run_pip --no-compile --report "$venv/installed.json" -e ".[$1]"; then
        grep -i '^ *error' "$log" | tail -n 5 >&2
        fail "the installation failed; all of pip's words are in $log. Fix the cause, and run the same command again"
    fi
    said=$("$venv/bin/python" infra/pinned.py "$venv/installed.json" 2>&1) || fail "$said"
    compile_packages
    touch "$stamp"
    say "setup: done"
}

check_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null 2>&1 && return
    done
    install_packages "a browser for the tests of pages" chromium fonts-dejavu-core fonts-noto-color-emoji
}

check_jdbc() {  # the benchmarks run without it, and say so
    [ -n "${POSTROOM_BENCH_JDBC:-}" ] || [ -e /usr/share/java/sqlite-jdbc.jar ] && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "setup: sqlite-jdbc is missing, so Spark is not compared with JDBC. To have it: sudo apt-get install libxerial-sqlite-jdbc-java"
        say "setup: or name its jar: make bench POSTROOM_BENCH_JDBC=/path/to/sqlite-jdbc.jar"
        return
    fi
    install_packages "the comparison of Spark with JDBC" libxerial-sqlite-jdbc-java
}

fetch_mermaid() {  # it draws the diagrams of the site; the pages are made without it
    file=out/site-static/mermaid.min.js
    hash=198b19442f86f0b46a17e56d3abf744c3a28a3427e66fa8dada3b589a77babcc
    [ -e "$file" ] && return
    if ! command -v npm >/dev/null 2>&1; then
        say "setup: npm is not installed, so the diagrams of the site stay text. To have them drawn: sudo apt-get install npm"
        return
    fi
    folder=$(mktemp -d)
    npm pack mermaid@11.12.1 --silent --pack-destination "$folder" >/dev/null && tar -xzf "$folder"/mermaid-*.tgz -C "$folder" ||
        fail "npm could not fetch mermaid, which draws the diagrams: its own words are above"
    echo "$hash  $folder/package/dist/mermaid.min.js" | sha256sum -c --status ||
        fail "npm fetched a mermaid with another hash than infra/setup.sh names, so it is not used"
    mkdir -p "${file%/*}"
    mv "$folder/package/dist/mermaid.min.js" "$file"
    rm -rf "$folder"
}

install_dev() { mode=dev; install emulator,api,spark,dev,bench,docs; }

mode=${1:-run}
make_venv
case $mode in
    run) if [ -e "$venv/.ready-dev" ]; then install_dev; else install emulator; fi ;;
    dev)
        install_dev
        check_java
        ;;
    browser) check_browser ;;
    jdbc) check_jdbc ;;
    docs)
        if [ -e "$venv/.ready-dev" ]; then install_dev; else install emulator,docs; fi
        fetch_mermaid
        ;;
    *) fail "say run, dev, browser, jdbc or docs" ;;
esac

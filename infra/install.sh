#!/bin/sh
# Installs Postroom as systemd services on one Debian or Ubuntu host, as root, from this folder:
#   infra/install.sh install [--domain bot.example.com]     the first time, and once more what failed or was left out of it;
#                                                           the domain gets TLS by Caddy
#   infra/install.sh upgrade      install this folder's release beside the one that runs, and change over to it
#   infra/install.sh rollback     change back to the release before, with all that came in since
# Releases are in /opt/postroom-releases, and /opt/postroom is the one that runs. Settings in /etc/postroom and the data in
# /var/lib/postroom are never overwritten. docs/operations.md says what to do after it.
set -eu
umask 022  # the user postroom must be able to read a release, whatever root's own habit is
cd "$(dirname "$0")/.."
current=/opt/postroom
releases=$(readlink -f /opt/postroom-releases)  # it may be a link to another disk
going_back=$releases/.going-back  # to which release, until it runs
settings=/etc/postroom
data=/var/lib/postroom
ready_s=${POSTROOM_INSTALL_WAIT:-60}

say() { printf 'install: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

check_host() {
    [ "$(id -u)" = 0 ] || fail "only root can install services: sudo infra/install.sh $mode"
    for program in systemctl useradd install; do
        command -v "$program" >/dev/null 2>&1 || fail "$program is missing: this script needs Debian or Ubuntu with systemd"
    done
}

make_user_and_folders() {
    id postroom >/dev/null 2>&1 || useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin postroom
    install -d -m 0755 "$releases"
    install -d -m 0700 "$settings"
    install -d -m 0700 -o postroom -g postroom "$data" "$data/agents"
}

release_files() {  # owned and changed by root alone, whoever owns the checkout
    tar -cf - --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --exclude=__pycache__ \
        pyproject.toml constraints.txt template.yaml README.md infra shared functions emulator
}

release_folder() { echo "$releases/$(release_files | sha256sum | cut -c 1-12)"; }

install_release() {  # a release that is there whole is used as it is
    if [ -e "$release/.installed" ]; then
        say "$release is installed already"
        return
    fi
    say "installing $release"
    rm -rf "$release"
    install -d -m 0755 "$release"
    release_files | tar -xf - -C "$release"
    (cd "$release" && VENV=.venv infra/setup.sh run) || fail "the release could not be installed; what ran before still runs"
    touch "$release/.installed"
}

write_settings() {
    "$release/.venv/bin/python" -m infra.template.host_files "$release/template.yaml" "$settings"
}

install_units() {
    for unit in postroom-host.service postroom-ticker.service postroom-function@.service; do
        install -m 0644 "$release/infra/systemd/$unit" "/etc/systemd/system/$unit"
    done
    install -d -m 0755 "/etc/systemd/system/postroom-function@dispatch.service.d"
    install -m 0644 "$release/infra/systemd/postroom-function@dispatch.service.d/leash.conf" \
        "/etc/systemd/system/postroom-function@dispatch.service.d/leash.conf"
    systemctl daemon-reload
}

functions() { for file in "$settings"/*.env; do [ "$file" = "$settings/host.env" ] || basename "$file" .env; done; }

units() { for name in $(functions); do echo "postroom-function@$name"; done; }

start_all() {  # first what the others are bound to; the ticks come last
    # shellcheck disable=SC2046
    systemctl enable --quiet postroom-host postroom-ticker $(units)
    systemctl start postroom-host
    # shellcheck disable=SC2046
    systemctl start $(units)
    systemctl start postroom-ticker
}

stop_all() {  # the functions are bound to it, and stop first
    systemctl stop postroom-ticker
    # shellcheck disable=SC2046
    systemctl stop $(units)
    systemctl stop postroom-host
}

probe() { "$current/.venv/bin/python" infra/probe.py "$@"; }  # this folder's: an older one may not know the standby

restarts() { echo "$1 $(systemctl show --property=NRestarts --value "postroom-function@$1")"; }

is_ready() {  # every function answers; on a standby, where they refuse connections, each has run for some seconds
    host_port=$(sed -n 's/^ExecStart=.*--port \([0-9]*\).*/\1/p' /etc/systemd/system/postroom-host.service)
    if probe "$host_port" standby; then is_standby=yes; else is_standby=; fi
    for name in $(functions); do
        waits_for=$name
        if [ -n "$is_standby" ]; then
            [ "$seconds" -ge 5 ] && systemctl is-active --quiet "postroom-function@$name" &&
                echo "$restarts_before" | grep -qxF "$(restarts "$name")" || return 1
        else
            probe "$(sed -n 's/^ARGUMENTS=.*--port[= ]\([0-9]*\).*/\1/p' "$settings/$name.env")" || return 1
        fi
    done
}

wait_ready() {
    restarts_before=$(for name in $(functions); do restarts "$name"; done)  # only a start from dead sets them to 0
    seconds=0
    until is_ready; do
        [ "$seconds" -ge "$ready_s" ] && return 1
        sleep 1
        seconds=$((seconds + 1))
    done
}

switch_to() {  # in one step: a link takes the place of another
    ln -sfn "$1" "$current.new"
    mv -T "$current.new" "$current"
}

runs() { [ ! -L "$current" ] || readlink -f "$current"; }

check_domain() {
    case $domain in
        *[!A-Za-z0-9.-]* | .* | -* | *..* | *. | '') fail "'$domain' is not a domain name: say --domain bot.example.com" ;;
    esac
}

serve_domain() {  # only the webhooks are open to the world; the API and the page are not
    command -v caddy >/dev/null 2>&1 || {
        say "installing Caddy, which gets the certificate of $domain"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends caddy; } >/dev/null ||
            fail "Postroom runs, but apt-get could not install caddy: its own words are above. Then: $again"
    }
    cat >/etc/caddy/postroom.caddy <<END
$domain {
	handle /webhooks/* {
		reverse_proxy 127.0.0.1:9001
	}
	handle {
		respond 404
	}
}
END
    # On a line of its own, also where the last line has no end.
    grep -qx 'import postroom.caddy' /etc/caddy/Caddyfile 2>/dev/null || printf '\nimport postroom.caddy\n' >>/etc/caddy/Caddyfile
    caddy validate --config /etc/caddy/Caddyfile --adapter caddyfile >/dev/null 2>&1 ||
        fail "Postroom runs, but Caddy refuses /etc/caddy/Caddyfile: caddy validate --config /etc/caddy/Caddyfile says why. Then: $again"
    systemctl reload-or-restart caddy ||
        fail "Postroom runs, but Caddy does not: journalctl -u caddy says why; another program may have ports 80 and 443. Then: $again"
}

put_in_place() { switch_to "$release"; install_units; start_all; }

trouble() { echo "$waits_for does not $([ -n "$is_standby" ] && echo "stay up" || echo "answer after $ready_s s")"; }

why_not() { echo "$(trouble): journalctl -u postroom-function@$waits_for -u postroom-host"; }

first_install() {
    again="infra/install.sh install${domain:+ --domain $domain}"
    release=$(release_folder)
    [ -z "$(runs)" ] || [ "$(runs)" = "$release" ] || fail "$(runs) is installed already: infra/install.sh upgrade"
    make_user_and_folders
    install_release
    write_settings
    put_in_place
    wait_ready || fail "$(why_not). Then: $again"
    [ -z "$domain" ] || serve_domain
    say "Postroom runs${is_standby:+ as the standby: its functions serve when it takes over}. Its settings are in $settings; what comes next: docs/operations.md, *The first hour*"
}

upgrade() {
    before=$(runs)
    [ -n "$before" ] || fail "nothing is installed yet: infra/install.sh install"
    rm -f "$going_back"
    release=$(release_folder)
    install_release
    write_settings
    if [ "$release" = "$before" ]; then  # also after an upgrade that was broken off: nothing runs then
        put_in_place
        wait_ready || fail "$(why_not)"
        say "this release runs already"
        return
    fi
    echo "$before" >"$release/.before"
    stop_all
    put_in_place
    if wait_ready; then
        remove_older
        say "$release runs. To go back, with all that comes in meanwhile: infra/install.sh rollback"
    else
        failed=postroom-function@$waits_for
        say "$(trouble), so $before comes back"
        rollback
        fail "the release was not changed; the log of the failed one: journalctl -u $failed -u postroom-host"
    fi
}

remove_older() {  # each has its libraries, and would fill the disk in the end; what others put there stays
    for folder in "$releases"/*; do
        echo "${folder##*/}" | grep -qxE '[0-9a-f]{12}' || continue
        [ "$folder" = "$release" ] || [ "$folder" = "$before" ] || rm -rf "$folder"
    done
}

rollback() {
    before=$(cat "$going_back" 2>/dev/null || cat "$current/.before" 2>/dev/null) || fail "there is no release to go back to"
    [ -e "$before/.installed" ] || fail "$before, the release before, is gone"
    echo "$before" >"$going_back.new"
    mv "$going_back.new" "$going_back"
    stop_all
    roll_back_database
    release=$before
    put_in_place
    wait_ready || fail "$(why_not)"
    rm -f "$going_back"
    say "$before runs again"
}

newest_schema() { basename -a "$1"/shared/db/migrations/*.sql | sort | tail -n 1 | cut -c 1-4; }

roll_back_database() {  # where the upgrade changed the schema; all that came in since is carried over
    [ "$(newest_schema "$before")" -lt "$(newest_schema "$current")" ] || return 0
    database=$(sed -n "s/^POSTROOM_DB=[\"']*\([^\"']*\).*/\1/p" "$settings/host.env" | tail -n 1)  # as systemd reads it
    [ -e "$database" ] || return 0
    (
        cd "$current/"
        runuser -u "$(stat -c %U "$database")" -- env POSTROOM_DB="$database" \
            .venv/bin/python -m emulator rollback --yes --to "$(newest_schema "$before")"
    ) ||
        fail "the database was not changed, and nothing runs now; what must be done is above. To start it again: systemctl start postroom-host"
}

mode=${1:-}
[ $# -eq 0 ] || shift
domain=
while [ $# -gt 0 ]; do
    case $1 in
        --domain) [ $# -ge 2 ] || fail "--domain needs a name"; domain=$2; check_domain; shift 2 ;;
        *) fail "'$1' is no option; see the head of infra/install.sh" ;;
    esac
done
[ -z "$domain" ] || [ "$mode" = install ] || fail "--domain goes with install: infra/install.sh install --domain $domain"
case $mode in
    install) check_host; first_install ;;
    upgrade) check_host; upgrade ;;
    rollback) check_host; rollback ;;
    *) fail "say install, upgrade or rollback" ;;
esac

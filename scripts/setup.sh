#!/bin/sh
# Makes a Debian or Ubuntu machine ready to build, test and run the sandbox:
# installs what is missing and starts a Docker engine where none answers.
#
#   scripts/setup.sh [--dry-run]
#
# It needs root, or sudo, only when something is missing; then it says what it
# does. With everything in place it is silent. It never stops an engine.
# Environment: DOCKER_HOST (a unix:// engine other than the usual one),
# SANDBOX_SETUP_LOG (folder for the logs, /var/log).
set -eu

# The tools of the administrator are not in everybody's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

default_socket=/var/run/docker.sock
start_seconds=60
log_dir=${SANDBOX_SETUP_LOG:-/var/log}
dry_run=

case ${1-} in
'') ;;
--dry-run) dry_run=yes ;;
*)
    echo "usage: scripts/setup.sh [--dry-run]" >&2
    exit 2
    ;;
esac

say() { echo "setup: $*" >&2; }

fail() {
    say "$1"
    [ -z "${2-}" ] || say "what to do: $2"
    exit 1
}

# as_root runs a command as root, or only shows it in a dry run.
as_root() {
    if [ -n "$dry_run" ]; then
        say "would run: $*"
    elif [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -- "$@"
    else
        fail "this needs root: $1 ${2-} …" "run this as root, or install sudo"
    fi
}

# --- the engine -------------------------------------------------------------

# The socket of the engine in question, or nothing for an engine elsewhere.
engine_socket() {
    case ${DOCKER_HOST-} in
    '') echo "$default_socket" ;;
    unix://*) echo "${DOCKER_HOST#unix://}" ;;
    esac
}

# ping_engine succeeds when the engine answers the caller. "$@" may be sudo.
ping_engine() {
    if command -v docker >/dev/null 2>&1; then
        timeout 10 "$@" docker version --format '{{.Server.APIVersion}}' >/dev/null 2>&1
    elif command -v curl >/dev/null 2>&1 && [ -n "$(engine_socket)" ]; then
        "$@" curl --silent --fail --max-time 10 --unix-socket "$(engine_socket)" http://engine/_ping >/dev/null 2>&1
    else
        return 1
    fi
}

# ping_as_root asks again as root, without ever waiting for a password.
ping_as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        return 1 # has been asked
    fi
    command -v sudo >/dev/null 2>&1 || return 1
    if [ -n "${DOCKER_HOST-}" ]; then
        ping_engine sudo -n env "DOCKER_HOST=$DOCKER_HOST"
    else
        ping_engine sudo -n
    fi
}

engine_answers() { ping_engine || ping_as_root; }

# services_work tells whether the machine's own service manager may start
# things: containers and image builds forbid it through policy-rc.d.
services_work() {
    if [ -d /run/systemd/system ]; then
        return 0
    fi
    [ -x /etc/init.d/docker ] || return 1
    if [ -x /usr/sbin/policy-rc.d ]; then
        denied=0
        /usr/sbin/policy-rc.d docker start >/dev/null 2>&1 || denied=$?
        [ "$denied" -eq 0 ] || return 1
    fi
    return 0
}

# wait_for_engine watches until the engine answers; $1 is the number of
# seconds, $2 a process without which there is no hope.
wait_for_engine() {
    end=$(($(date +%s) + $1))
    while ! engine_answers; do
        if [ -n "${2-}" ] && ! kill_probe "$2"; then
            engine_answers # another start may have won meanwhile
            return
        fi
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.2
    done
}

kill_probe() { [ -d "/proc/$1" ]; }

start_by_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker
    else
        as_root service docker start
    fi
}

# drop_stale_pid removes the pid file of an engine that was killed: dockerd
# refuses to start while any process has that number, whatever it is.
drop_stale_pid() {
    file=/var/run/docker.pid
    [ -f "$file" ] || return 0
    case $(cat "/proc/$(cat "$file")/comm" 2>/dev/null) in
    dockerd*) ;;
    *) as_root rm -f "$file" ;;
    esac
}

# start_by_hand runs dockerd in the background, in a session of its own, so
# that it outlives this script and its terminal.
start_by_hand() {
    socket=$1
    log=$log_dir/sandbox-dockerd.log
    say "starting dockerd by hand; its log is $log"
    if [ -n "$dry_run" ]; then
        say "would run: dockerd --host unix://$socket"
        return 0
    fi
    drop_stale_pid
    # shellcheck disable=SC2016 # the inner shell expands these
    pid=$(as_root sh -c '
        mkdir -p "$1" && : >>"$2" || exit 1
        setsid dockerd --host "unix://$3" >>"$2" 2>&1 </dev/null &
        echo $!' sh "$log_dir" "$log" "$socket") || fail "dockerd could not be started"
    if wait_for_engine "$start_seconds" "$pid"; then
        say "dockerd runs as process $pid; it stays until you end it"
        return 0
    fi
    say "the last lines of $log:"
    as_root tail -n 15 "$log" >&2 || true
    fail "dockerd does not answer" "see the log; kernel modules or cgroups may be missing in this machine"
}

start_engine() {
    socket=$(engine_socket)
    [ -n "$socket" ] || fail "the engine at DOCKER_HOST=$DOCKER_HOST does not answer" \
        "start it there, or unset DOCKER_HOST to use an engine on this machine"
    # A socket that the caller may not use says nothing about the engine:
    # root has to ask, after the password if there is one.
    if [ -S "$socket" ] && [ ! -w "$socket" ] && [ -z "$dry_run" ]; then
        if ! command -v sudo >/dev/null 2>&1 || ! sudo -v; then
            fail "$(id -un) may not use the engine's socket $socket" \
                "as root: usermod -aG docker $(id -un); then log in again"
        fi
        ! engine_answers || return 0
    fi
    say "no engine answers at $socket"
    command -v dockerd >/dev/null 2>&1 || install_packages docker.io
    # Recent releases have the command-line client in a package of its own.
    command -v docker >/dev/null 2>&1 || install_packages docker-cli
    # Installing may have started it already.
    if [ -z "$dry_run" ] && wait_for_engine 2; then
        return 0
    fi
    if [ "$socket" = "$default_socket" ] && services_work; then
        say "starting the docker service"
        if start_by_service && { [ -n "$dry_run" ] || wait_for_engine 20; }; then
            return 0
        fi
        say "the service did not bring it up"
    fi
    start_by_hand "$socket"
}

# open_engine lets the caller use an engine that so far only root can reach.
# A grant on the socket ends with it; membership in the docker group would
# last, and both are as much as root.
open_engine() {
    socket=$(engine_socket)
    if [ -n "$dry_run" ] || ping_engine; then
        return 0
    fi
    say "the engine answers root but not $(id -un)"
    command -v setfacl >/dev/null 2>&1 || install_packages acl
    say "granting $(id -un) access to $socket until the engine ends (this is as much as root;"
    say "for good it would be: sudo usermod -aG docker $(id -un), and a new login)"
    as_root setfacl -m "u:$(id -u):rw" "$(readlink -f "$socket")" || true
    ping_engine || fail "$(id -un) cannot use the engine" \
        "sudo usermod -aG docker $(id -un), log in again, and repeat"
}

# --- packages ---------------------------------------------------------------

# install_packages installs from the machine's own sources.
install_packages() {
    command -v apt-get >/dev/null 2>&1 ||
        fail "missing: $*, and this machine has no apt-get" "install them with this system's own means"
    say "installing: $*"
    log=$(mktemp "${TMPDIR:-/tmp}/sandbox-apt.XXXXXX")
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 ||
        ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "could not install: $*" "see that apt-get update works, then repeat"
    fi
    [ -z "$dry_run" ] || cat "$log" >&2
    rm -f "$log"
}

# want adds a package unless its command is there.
missing=
want() {
    command -v "$1" >/dev/null 2>&1 && return 0
    shift
    missing="$missing $*"
}

want git git
want make make
want ip iproute2
want ps procps
want mkfs.ext4 e2fsprogs
want bwrap bubblewrap
# Media can come from other machines over ssh.
want ssh-keygen openssh-client
# The race detector links with the C compiler.
want cc gcc libc6-dev

# want_shown is want for programs that tests run inside walls, which show the
# system's folders only: one in somebody's home is not enough.
want_shown() {
    for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
        [ ! -x "$folder/$1" ] || return 0
    done
    shift
    missing="$missing $*"
}

# The usual tools, which have to find their way out of a sandbox.
want_shown curl curl
want_shown wget wget
want_shown node nodejs
want_shown npm npm
# Of Pythons only the distribution's own has its packages.
/usr/bin/python3 -c 'import pip, requests' 2>/dev/null || missing="$missing python3 python3-pip python3-requests"

# Either tool makes a base image where no registry can be reached.
command -v debootstrap >/dev/null 2>&1 || want mmdebstrap mmdebstrap

if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # names without blanks or globs
    install_packages $missing
fi

# Ubuntu lets bubblewrap make user namespaces only with a profile for it,
# which it has ready and does not load.
restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
profile=bwrap-userns-restrict
if [ -r "$restricted" ] && [ "$(cat "$restricted")" = 1 ] && ! [ -e "/etc/apparmor.d/$profile" ] && ! [ -e /etc/apparmor.d/bwrap ]; then
    say "AppArmor keeps bubblewrap from making walls; loading the distribution's profile $profile"
    [ -e "/usr/share/apparmor/extra-profiles/$profile" ] || install_packages apparmor-profiles
    as_root cp "/usr/share/apparmor/extra-profiles/$profile" "/etc/apparmor.d/$profile"
    as_root apparmor_parser -r "/etc/apparmor.d/$profile"
fi

if ! engine_answers; then
    start_engine
fi
if [ -z "$dry_run" ] && ! command -v docker >/dev/null 2>&1; then
    install_packages docker-cli
fi
open_engine

if ! command -v go >/dev/null 2>&1; then
    fail "Go is not installed or not in PATH" "install Go 1.26 or newer"
fi

#!/bin/sh
# Runs a Podman without root for tests: its service, as an ordinary user of its own,
# with storage of its own, and the images that the Docker engine has.
#
#   scripts/podman.sh COMMAND
#     start               start the service and wait until it answers
#     stop                end it and remove the user, its containers and its storage
#     run COMMAND...      run a command as that user, with DOCKER_HOST for it
#     test [PACKAGE...]   start it, run the tests of packages as that user, and stop it
#                         (default ./container and ./provider/docker); then attack a
#                         sandbox as doctor --attack does
#
# It needs root, and what it lacks it installs with apt-get. It leaves other engines
# alone. Environment: SANDBOX_PODMAN_USER (sandbox-podman), SANDBOX_PODMAN_IMAGES
# (sandbox:bookworm-slim), TEST_FLAGS (flags of the test binaries),
# SANDBOX_TEST_REQUIRE (docker).
set -eu

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

here=$(cd "$(dirname "$0")/.." && pwd)
user=${SANDBOX_PODMAN_USER:-sandbox-podman}
images=${SANDBOX_PODMAN_IMAGES:-sandbox:bookworm-slim}
home=/var/lib/$user
runtime=/run/$user
socket=$runtime/podman/podman.sock
start_seconds=120

say() { echo "podman: $*" >&2; }

fail() {
    say "$1"
    [ -z "${2-}" ] || say "what to do: $2"
    exit 1
}

# missing_packages names the packages whose programs this machine lacks.
missing_packages() {
    for pair in podman:podman newuidmap:uidmap slirp4netns:slirp4netns fuse-overlayfs:fuse-overlayfs runc:runc setpriv:util-linux; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || printf '%s ' "${pair#*:}"
    done
}

install_missing() {
    packages=$(missing_packages)
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null 2>&1 || fail "missing: $packages, and this machine has no apt-get" "install them with this system's own means"
    say "installing: $packages"
    log=$(mktemp "${TMPDIR:-/tmp}/sandbox-apt.XXXXXX")
    # shellcheck disable=SC2086 # names without blanks or globs
    if ! env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 ||
        ! env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $packages >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "could not install: $packages" "see that apt-get update works, then repeat"
    fi
    rm -f "$log"
}

# as_user runs a command as the user, with nothing of root's environment but what
# is named before it.
as_user() {
    # Of root's groups and folders nothing remains.
    (cd "${as_user_dir:-$home}" && exec setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all env -i \
        HOME="$home" USER="$user" LOGNAME="$user" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
        XDG_RUNTIME_DIR="$runtime" DOCKER_HOST="unix://$socket" "$@")
}

make_user() {
    if ! id "$user" >/dev/null 2>&1; then
        # Its ids for containers come with it, in /etc/subuid and /etc/subgid.
        useradd --create-home --home-dir "$home" --shell /bin/sh "$user"
        : >"$home/.made-by-podman.sh"
    fi
    [ -e "$home/.made-by-podman.sh" ] || fail "the user $user is not one that this script has made" "name another one in SANDBOX_PODMAN_USER"
    grep -q "^$user:" /etc/subuid && grep -q "^$user:" /etc/subgid || fail "$user has no ids in /etc/subuid and /etc/subgid" "userdel $user, and repeat"
    install -d -m 0700 -o "$user" -g "$user" "$runtime" "$runtime/podman"
    install -d -o "$user" -g "$user" "$home/.config" "$home/.config/containers"
    # A kernel since 5.13 has overlays for ordinary users; crun does not start where
    # control groups of both versions are mounted.
    printf '[storage]\ndriver = "overlay"\n' >"$home/.config/containers/storage.conf"
    printf '[engine]\nruntime = "%s"\n' "$(oci_runtime)" >"$home/.config/containers/containers.conf"
    if [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then
        printf 'cgroup_manager = "cgroupfs"\n' >>"$home/.config/containers/containers.conf"
    fi
}

oci_runtime() {
    if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] && command -v crun >/dev/null 2>&1; then
        echo crun
    else
        echo runc
    fi
}

answers() { [ -S "$socket" ] && as_user curl --silent --fail --max-time 10 --unix-socket "$socket" http://engine/_ping >/dev/null 2>&1; }

service_pid() { cat "$runtime/service.pid" 2>/dev/null || true; }

# runs succeeds while the process $1 is a podman.
runs() { [ -n "$1" ] && [ "$(cat "/proc/$1/comm" 2>/dev/null)" = podman ]; }

start() {
    [ "$(id -u)" -eq 0 ] || fail "this makes a user and runs programs as it: it needs root"
    install_missing
    make_user
    if ! answers; then
        rm -f "$socket"
        log=$home/service.log
        as_user sh -c 'setsid podman system service --time=0 "unix://$1" >>"$2" 2>&1 </dev/null & echo $!' sh "$socket" "$log" >"$runtime/service.pid"
        end=$(($(date +%s) + start_seconds))
        until answers; do
            if [ "$(date +%s)" -ge "$end" ] || ! [ -d "/proc/$(service_pid)" ]; then
                tail -n 15 "$log" >&2 || true
                fail "podman does not answer" "see $log"
            fi
            sleep 0.2
        done
    fi
    for image in $images; do
        load "$image"
    done
}

# load gives Podman an image of the Docker engine, unless it has it.
load() {
    want=$(docker image inspect --format '{{.Id}}' "$1") || fail "the Docker engine has no image $1" "make image"
    have=$(as_user podman image inspect --format 'sha256:{{.Id}}' "$1" 2>/dev/null || true)
    [ "$want" != "$have" ] || return 0
    docker save "$1" | as_user podman load --quiet >/dev/null
}

stop() {
    [ "$(id -u)" -eq 0 ] || fail "this removes a user: it needs root"
    id "$user" >/dev/null 2>&1 || return 0
    [ -e "$home/.made-by-podman.sh" ] || fail "the user $user is not one that this script has made"
    as_user podman rm --all --force --time 0 >/dev/null 2>&1 || say "some containers could not be removed by podman"
    for pid in "$(service_pid)" "$(cat "$runtime/libpod/tmp/pause.pid" 2>/dev/null || true)"; do
        [ -z "$pid" ] || ! [ "$(stat -c %U "/proc/$pid" 2>/dev/null)" = "$user" ] || kill "$pid" 2>/dev/null || true
    done
    end=$(($(date +%s) + 20))
    while runs "$(service_pid)" && [ "$(date +%s)" -lt "$end" ]; do
        sleep 0.2
    done
    # What is left of the user's ends with it: the uid is given to another one later.
    for process in /proc/[0-9]*; do
        [ "$(stat -c %U "$process" 2>/dev/null)" != "$user" ] || kill -KILL "${process#/proc/}" 2>/dev/null || true
    done
    rm -rf "$home" "$runtime"
    userdel "$user" 2>/dev/null || say "the user $user could not be removed"
}

# tests runs the tests of packages, each in its folder, as go test does.
tests() {
    [ $# -gt 0 ] || set -- ./container ./provider/docker
    work=$home/tests
    status=0
    install -d -o "$user" -g "$user" "$work"
    cp "$here/bin/sandbox" "$here/bin/sandbox-engine" "$here/bin/sandbox-guest" "$work/"
    for package; do
        binary=$work/$(basename "$package").test
        (cd "$here" && go test -c -o "$binary" "$package") || return 1
        say "tests of $package"
        # shellcheck disable=SC2086 # flags are words
        as_user_dir=$here/$package as_user SANDBOX_GUEST="$work/sandbox-guest" SANDBOX_TEST_REQUIRE="${SANDBOX_TEST_REQUIRE:-docker}" \
            SANDBOX_TEST_ALL="${SANDBOX_TEST_ALL-}" "$binary" -test.timeout 40m ${TEST_FLAGS-} || status=1
    done
    attack || status=1
    return $status
}

# attack tries to get out of a sandbox of this engine, as a user can. What docs/podman.md
# names as weaker succeeds, and nothing else may.
attack() {
    say "attacks on a sandbox"
    weaker='fill-disk|hoard-inotify'
    [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] || weaker="$weaker|memory"
    printf '{"agents": {"defaults": {"sandbox": {"provider": "docker", "docker": {"dangerouslyAllowMissingLimits": true}}}}}\n' >"$home/tests/settings.json"
    as_user "$home/tests/sandbox" --config "$home/tests/settings.json" doctor --attack >"$home/tests/attacks" || true # it fails for what is weaker
    cat "$home/tests/attacks"
    grep -q '^contained *still-alive ' "$home/tests/attacks" || { say "the attacks did not end" && return 1; }
    ! awk '$1 == "escaped" || $1 == "unproven" { print $2 }' "$home/tests/attacks" | grep -xvE "$weaker" >&2 || { say "these are open, too" && return 1; }
}

command=${1-}
[ $# -eq 0 ] || shift
case $command in
start) start ;;
stop) stop ;;
run)
    answers || fail "podman does not run" "scripts/podman.sh start"
    as_user_dir=/ as_user "$@"
    ;;
test)
    trap stop EXIT
    trap 'exit 130' INT TERM
    start
    tests "$@"
    ;;
*)
    sed -n '5,11s/^# \{0,3\}//p' "$0" >&2
    exit 2
    ;;
esac

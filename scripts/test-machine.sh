#!/usr/bin/env bash
# Uses the package on a fresh Debian 12 in a virtual machine (scripts/vm.sh), as an
# ordinary user: with the local provider, with a Podman of his own without root, and with
# the service; then removes the package and looks for what is left.
#
#   scripts/test-machine.sh DIST
#
# DIST is a folder with the package for amd64, as make dist makes it. The image of
# sandboxes is BusyBox: the machine has no network, and User Mode Linux takes minutes to
# copy a Debian for the ids of a user.
# Environment: TEST_MACHINE_LIMIT (seconds that the machine may run, 1800), and that of
# scripts/vm.sh.
set -euo pipefail

dist=${1:?usage: scripts/test-machine.sh DIST}
packages=("$dist"/sandbox_*_amd64.deb)
if [ "${#packages[@]}" -ne 1 ] || [ ! -f "${packages[0]}" ]; then
    echo "test-machine: $dist has no package for amd64, or more than one; run make dist" >&2
    exit 1
fi
share=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-machine.XXXXXX")
trap 'rm -rf "$share"' EXIT
cp "${packages[0]}" "$share/sandbox.deb"

cat >"$share/run" <<'EOF2'
#!/bin/bash
# Runs as root in the machine.
status=0 steps=0
began=$SECONDS
chmod 755 /share && chmod 644 /share/*

as_user() { runuser -l user -c "export XDG_RUNTIME_DIR=/run/user/$(id -u user) NO_COLOR=1; $1"; }

# prints runs $3 and expects that its output is $2.
prints() {
    local name=$1 want=$2 from=$SECONDS got code=0
    steps=$((steps + 1))
    got=$(eval "$3" 2>/tmp/errors) || code=$?
    if [ "$code" -eq 0 ] && [ "$got" = "$want" ]; then
        echo "ok   $name ($((SECONDS - from)) s)"
    else
        status=1
        echo "FAIL $name ($((SECONDS - from)) s): $3"
        printf 'status %s, it prints\n%s\nand not\n%s\n' "$code" "$got" "$want"
        tail -n 20 /tmp/errors
    fi
}

# files lists what is not written by any installation, by a login or by the engine.
files() {
    find / -xdev \( -path /share -o -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/cache -o -path /var/log \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /home/user/.local/share/containers -o -path /home/user/.config \) -prune \
        -o -not -path '/etc/*-' -print | sort
}

echo "kernel $(uname -r), Debian $(cat /etc/debian_version), $(podman --version)"
files >/tmp/before
prints "install" "" "apt-get -qq install --yes /share/sandbox.deb >/dev/null"
prints "version" "1" "sandbox version | grep -c '^sandbox '"
# User Mode Linux has no Landlock, which the settings have to accept; Debian's other kernels have it.
if ! grep -qw landlock /sys/kernel/security/lsm 2>/dev/null; then
    echo "this kernel has no Landlock"
    as_user "mkdir -p .config/sandbox && echo '{\"agents\": {\"defaults\": {\"sandbox\": {\"provider\": \"local\", \"providerOptions\": {\"withoutLandlock\": true}}}}}' >.config/sandbox/sandbox.json"
fi

# Without an engine of his own, and without a right to Docker's.
prints "local: the main job" $'sandbox\n/workspace' "as_user \"sandbox run -- sh -c 'id -un; pwd; echo kept >file'\""
prints "local: the workspace stays" "kept" "as_user 'sandbox run -- cat file'"
prints "local: the provider" "local" "as_user 'sandbox list -o json' | grep -o '\"provider\": *\"[a-z]*\"' | cut -d'\"' -f4 | sort -u"
if grep -qw landlock /sys/kernel/security/lsm 2>/dev/null; then
    prints "local: attacks" "" "as_user 'sandbox --provider local doctor --attack' | grep -E '^(escaped|unproven)' || true"
fi
prints "local: gone" "" "as_user 'sandbox recreate --all --force >/dev/null; sandbox list -o json' | grep sbx- || true"

rm -f /home/user/.config/sandbox/sandbox.json

# Podman without root: his socket is found without a setting. What docs/podman.md names as
# weaker is open. User Mode Linux is too slow for attempts with bounds of time.
open='escaped|unproven'
grep -qw landlock /sys/kernel/security/lsm 2>/dev/null || open=escaped
prints "podman: its service" "active" "as_user 'systemctl --user start podman.socket; systemctl --user is-active podman.socket'"
image=$(mktemp -d)
chmod 755 "$image"
mkdir -p "$image"/{bin,etc,tmp,proc,sys,dev,home,run,var/tmp,usr/bin}
cp /bin/busybox "$image/bin/busybox"
for program in $(/bin/busybox --list); do ln -s busybox "$image/bin/$program" 2>/dev/null || true; done
tar -C "$image" -cf /tmp/image.tar . && chmod 644 /tmp/image.tar
prints "podman: an image" "" "as_user 'podman import --quiet /tmp/image.tar docker.io/library/sandbox:bookworm-slim' >/dev/null"
prints "podman: the main job" $'1000\n/workspace' "as_user \"sandbox --provider docker run --session pod -- sh -c 'id -u; pwd; echo kept >file'\""
prints "podman: the workspace stays" "kept" "as_user 'sandbox --provider docker run --session pod -- cat file'"
prints "podman: a container of his" "1" "as_user 'podman ps --quiet --filter name=sbx' | wc -l"
prints "podman: the host's files are out of reach" "refused" "as_user \"sandbox --provider docker run --session pod -- sh -c 'cat /share/sandbox.deb 2>/dev/null || echo refused'\""
prints "podman: attacks" "" "as_user 'sandbox --provider docker doctor --attack' >/tmp/attacks; grep -q '^contained *still-alive' /tmp/attacks || echo 'the attacks did not end'; grep -E \"^(\$open)\" /tmp/attacks | grep -vE '^escaped *(fill-disk|hoard-inotify) ' || true"
prints "podman: gone" "0" "as_user 'sandbox recreate --all --force >/dev/null; podman ps --all --quiet --filter name=sbx' | wc -l"

# The service, which its socket starts.
prints "service: its socket" "active" "systemctl start sandboxd.socket; systemctl is-active sandboxd.socket"
prints "service: answers" "200" "curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/sandboxd/sandboxd.sock http://localhost/healthz"

prints "remove" "" "apt-get -qq purge --yes sandbox >/dev/null"
files >/tmp/after
prints "only state is left" "" "comm -13 /tmp/before /tmp/after | grep -vE '^/home/user/[.]local(/|\$)|^/home/user/[.](cache|bash_history)|^/var/lib/sandboxd(/|\$)' || true"
echo "ran $steps steps in $((SECONDS - began)) s"
exit $status
EOF2
chmod +x "$share/run"
scripts/vm.sh --share "$share" --memory 2048 --limit "${TEST_MACHINE_LIMIT:-1800}" bash /share/run

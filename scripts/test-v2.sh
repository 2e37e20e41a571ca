#!/usr/bin/env bash
# Runs the tests that speak of control groups in a virtual machine that has version 2
# alone (scripts/vm.sh), as root, as an ordinary user in a login session and as a service,
# and prints what ran.
#
#   scripts/test-v2.sh
#
# None of these tests may be skipped. Environment: TEST_V2_LIMIT (seconds that the
# machine may run, 1800), and that of scripts/vm.sh.
set -euo pipefail

cd "$(dirname "$0")/.."
share=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-v2.XXXXXX")
trap 'rm -rf "$share"' EXIT

for package in provider/local provider/docker; do
    CGO_ENABLED=0 go test -c -vet=off -ldflags=-w -o "$share/${package//\//-}.test" "./$package"
done
cp "${SANDBOX_GUEST:-bin/sandbox-guest}" "$share/sandbox-guest"

cat >"$share/run" <<'EOF'
#!/bin/bash
# Runs as root in the machine.
export SANDBOX_GUEST=/share/sandbox-guest HOME=/root
status=0 steps=0
began=$SECONDS
step() {
    local name=$1 from=$SECONDS
    shift
    steps=$((steps + 1))
    echo "--- $name"
    if "$@"; then echo "ok   $name ($((SECONDS - from)) s)"; else status=1 && echo "FAIL $name ($((SECONDS - from)) s)"; fi
}
test_as_user() { runuser -l user -c "cd /tmp && SANDBOX_GUEST=/share/sandbox-guest SANDBOX_TEST_REQUIRE=local,user,cgroup2 $*"; }
chmod 755 /share /share/*

echo "kernel $(uname -r), systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), $(stat -f -c %T /sys/fs/cgroup): $(cat /sys/fs/cgroup/cgroup.controllers)"
export SANDBOX_TEST_REQUIRE=root,local,user,docker,cgroup2
step "local, as root" /share/provider-local.test -test.v -test.run '^TestGroup'
step "local, as an ordinary user" test_as_user /share/provider-local.test -test.v -test.run "'^TestGroup($|OutOfMemory|OfAnother|Pause)'"
# As sandboxd.service does: a user without a service manager of his own.
step "local, in a service that delegates its group" systemd-run --quiet --wait --pipe --uid=daemon -p Delegate=yes -p WorkingDirectory=/tmp \
    -E SANDBOX_GUEST -E SANDBOX_TEST_REQUIRE=local,user,cgroup2 /share/provider-local.test -test.v -test.run '^TestGroup($|OutOfMemory|Pause)'

# The image of the tests is BusyBox here: the programs of a Debian are the machine's own.
image() {
    local dir program
    dir=$(mktemp -d)
    mkdir -p "$dir"/{bin,etc,tmp,proc,sys,dev,home,run,var/tmp,usr/bin}
    cp /bin/busybox "$dir/bin/busybox"
    for program in $("$dir/bin/busybox" --list); do ln -s busybox "$dir/bin/$program" 2>/dev/null || true; done
    tar -C "$dir" -c . | docker import - sandbox:bookworm-slim >/dev/null
}
# The containers of these tests have no network, and User Mode Linux no firewall.
engine() {
    systemctl stop docker.socket
    install -d /etc/docker && echo '{"iptables": false, "ip6tables": false, "bridge": "none"}' >/etc/docker/daemon.json
    systemctl start docker || { journalctl -u docker -u containerd --no-pager -o cat | tail -n 20 && false; }
}
step "an engine" engine
step "an image for Docker" image
step "docker" /share/provider-docker.test -test.v -test.run '^TestGroup$'
[ "$steps" -eq 6 ] || status=1
echo "ran $steps steps in $((SECONDS - began)) s"
exit $status
EOF
chmod +x "$share/run"
scripts/vm.sh --share "$share" --memory 2048 --limit "${TEST_V2_LIMIT:-1800}" /share/run

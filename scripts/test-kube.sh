#!/usr/bin/env bash
# Runs the tests that need a Kubernetes cluster, of the packages that are named
# (default: all of them), and lets none of them be skipped.
#
#   scripts/test-kube.sh [PACKAGE…]
#
# The cluster of scripts/kube.sh is built, unless it is cached, and started. However
# the run ends, it is stopped, as are the clusters that tests have started for
# themselves. One that runs before is used as it is, and goes on. Four packages run at
# once, because tests wait for the cluster most of the time (TEST_ENGINE_PARALLEL).
set -euo pipefail

cd "$(dirname "$0")/.."
export TEST_ENGINE_PARALLEL=${TEST_ENGINE_PARALLEL:-4}
export SANDBOX_TEST_REQUIRE=${SANDBOX_TEST_REQUIRE:+$SANDBOX_TEST_REQUIRE,}kube,docker,helm,e2b

# stop ends what runs of clusters. That of a test is locked as long as its test runs.
stop() {
    local status=$? number lock
    [ -n "$ran" ] || scripts/kube.sh stop || status=1
    for lock in "${TMPDIR:-/tmp}"/sandbox-kube-*.test; do
        [ -e "$lock" ] || continue
        number=${lock##*/sandbox-kube-}
        flock --nonblock "$lock" scripts/kube.sh --number "${number%.test}" stop || true
    done
    exit "$status"
}

ran=
! scripts/kube.sh status >/dev/null 2>&1 || ran=yes
trap stop EXIT
scripts/kube.sh start
scripts/test.sh --kube "$@"

#!/usr/bin/env bash
# Runs the tests of the packages that are named (default: all of them).
#
#   scripts/test.sh [--quick|--clients|--kube] [PACKAGE…]
#
# With --quick it leaves out the packages that use the Docker engine, and the
# others run with -short and without the race detector.
#
# Tests of programs by others are named TestClients…, and need what "make clients
# inspector" installs. They run with --clients alone, or with all others where
# SANDBOX_TEST_ALL is set.
#
# Tests that need a cluster are named TestKube…, which testenv.Require holds them to.
# They run with --kube alone, as scripts/test-kube.sh does, or with all others where
# SANDBOX_TEST_ALL is set.
#
# Packages whose tests use the Docker engine run two at once, because they share
# that engine and wait for it some of the time; the others run beside them, half as
# many at once as there are processors: the processors are busy by then, and with
# more, tests that wait for programs come to their bounds. The
# package with the most lines of tests starts first, so that no long one is left
# for the end. Of those without the engine, the ones with few lines of tests run after
# those of the engine, beside the last of the long ones. The packages themselves are compiled before, because both groups
# need them and would compile them at the same time.
#
# A test that fails runs once more, alone, unless more than six of its group
# failed. If it passes then, it is flaky: the last lines name it, and more than
# three flaky tests fail the run.
#
# As root, and where the machine has memory to spare, what the tests write lies in
# a tmpfs: programs keep their state with fsync, which costs a fifth of the time on
# a disk. With SANDBOX_TEST_ALL, or with TMPDIR set, it lies in TMPDIR as usual.
#
# Environment: TEST_FLAGS (flags for go test), TEST_PARALLEL (packages at once,
# beside those of the engine), TEST_ENGINE_PARALLEL (packages of the engine at
# once), GOTESTSUM (the command to run instead of the tool that go.mod names),
# GORACE (options of the race detector).
set -euo pipefail

# A program with the race detector waits a second when it ends. Tests start such
# programs by the hundred.
export GORACE=${GORACE-atexit_sleep_ms=0}

cd "${SANDBOX_TEST_MODULE:-$(dirname "$0")/..}"
read -ra gotestsum <<<"${GOTESTSUM:-go tool gotestsum}"
read -ra flags <<<"${TEST_FLAGS--race -count=1 -vet=off -ldflags=-w -timeout 45m}"
quick= only=
case ${1-} in
--quick)
    quick=yes
    flags=(-short -count=1 -vet=off -ldflags=-w -timeout 4m)
    shift
    ;;
--clients | --kube)
    only=TestClients
    if [ "$1" = --kube ]; then
        only=TestKube
        flags+=(-parallel 8) # they wait for the cluster
    fi
    flags+=(-run "^$only")
    shift
    ;;
*)
    [ -n "${SANDBOX_TEST_ALL-}" ] || flags+=(-skip '^Test(Clients|Kube)')
    ;;
esac
processors=$(getconf _NPROCESSORS_ONLN)
engine_parallel=${TEST_ENGINE_PARALLEL:-2}
most_flaky=3
light_lines=3500 # of tests

work=$(mktemp -d)
memory=
cleanup() {
    rm -rf "$work"
    [ -z "$memory" ] || { umount -l "$memory" && rmdir "$memory"; }
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null || echo 0)
if [ -z "$quick${SANDBOX_TEST_ALL-}${TMPDIR-}" ] && [ "$(id -u)" -eq 0 ] && [ "${available:-0}" -ge 8192 ]; then
    memory=$(mktemp -d /tmp/tXXXX) # short: the path of a socket has at most 107 bytes
    if mount -t tmpfs -o "mode=1777,size=$((available / 2))m" tmpfs "$memory" 2>/dev/null; then
        export TMPDIR=$memory
    else
        rmdir "$memory"
        memory=
    fi
fi
: >"$work/flaky"
export SANDBOX_TEST_IMAGES=$work/images # see testenv.Images

# A package uses the engine if its tests require one, or the test helpers that
# start containers.
uses_engine='testenv\.Require\([a-z]+, ("docker"|"browser"|"code"|"kube"|wall)\)|sandbox/internal/testenv/dockertest"'
go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "${@:-./...}" >"$work/listed"
while read -r package dir; do
    echo "$(cat "$dir"/*_test.go | wc -l) $package $dir"
done <"$work/listed" | sort -k1,1nr -k2,2 >"$work/packages"
engine=() rest=() light=()
while read -r lines package dir; do
    if [ -n "$quick" ] && grep -qE "$uses_engine" "$dir"/*_test.go; then
        continue
    elif [ -n "$only" ] && ! grep -q "^func $only" "$dir"/*_test.go; then
        continue
    elif grep -qE "$uses_engine" "$dir"/*_test.go; then
        engine+=("$package")
    elif [ "$lines" -lt "$light_lines" ]; then
        light+=("$package")
    else
        rest+=("$package")
    fi
done <"$work/packages"
if [ "${#engine[@]}" -eq 0 ] || [ "${#rest[@]}" -eq 0 ]; then
    rest+=("${light[@]}")
    light=()
fi

parallel=$processors
[ "${#engine[@]}" -eq 0 ] || parallel=$(((processors + 1) / 2))
parallel=${TEST_PARALLEL:-$parallel}

# run_group tests the packages of group $1, at most $2 at once. The group's
# exit status goes into a file: both groups run to their end.
run_group() {
    local group=$1 at_once=$2 status=0
    shift 2
    "${gotestsum[@]}" --format pkgname --format-hide-empty-pkg \
        --rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-run-root-test \
        --rerun-fails-report "$work/$group.rerun" --jsonfile-timing-events "$work/$group.json" \
        --packages "$*" -- "${flags[@]}" -p "$at_once" || status=$?
    # A failure outside of all tests, such as a goroutine that is left behind,
    # fails a package none of whose tests failed. gotestsum runs no test of it
    # again; the package runs again as a whole.
    local package
    grep '"Action":"fail"' "$work/$group.json" >"$work/$group.fails" || true
    sed -n '/"Test":/!s/.*"Package":"\([^"]*\)".*/\1/p' "$work/$group.fails" | sort -u >"$work/$group.whole"
    while [ "$status" -eq 0 ] && read -r package; do
        ! grep -qF "\"Package\":\"$package\",\"Test\":" "$work/$group.fails" || continue
        echo "run again as a whole: $package"
        go test "${flags[@]}" "$package" </dev/null || { status=$? && break; }
        echo "$package (outside of its tests)" >>"$work/flaky"
    done <"$work/$group.whole"
    echo "$status" >"$work/$group.status"
}

if [ "${#engine[@]}" -gt 0 ] && [ "${#rest[@]}" -gt 0 ]; then
    build=()
    for flag in "${flags[@]}"; do
        case $flag in -race | -tags=*) build+=("$flag") ;; esac
    done
    # What does not compile, the tests report.
    go build "${build[@]}" "${engine[@]}" "${rest[@]}" "${light[@]}" >/dev/null 2>&1 || true
fi
if [ "${#engine[@]}" -gt 0 ]; then
    {
        run_group engine "$engine_parallel" "${engine[@]}"
        [ "${#light[@]}" -eq 0 ] || run_group light "$processors" "${light[@]}"
    } >"$work/engine.log" 2>&1 &
fi
if [ "${#rest[@]}" -gt 0 ]; then
    run_group rest "$parallel" "${rest[@]}"
fi
wait
if [ "${#engine[@]}" -gt 0 ]; then
    echo "packages that use the engine${light:+, and those with few tests}:"
    cat "$work/engine.log"
fi

if [ -z "$quick" ]; then
    echo "the slowest tests:"
    cat "$work"/*.json | "${gotestsum[@]}" tool slowest --threshold 20s --num 15 | sed 's/^/    /' || true
fi

status=0
for group in engine light rest; do
    [ ! -f "$work/$group.status" ] || [ "$(cat "$work/$group.status")" -eq 0 ] || status=1
done

# A line of a report is "PACKAGE.TEST: N runs, M failures"; a subtest counts
# with the test that it belongs to.
for report in "$work"/*.rerun; do
    [ -f "$report" ] || continue
    sed -n 's/^\(.*\): \([0-9]*\) runs, \([0-9]*\) failures$/\1 \2 \3/p' "$report" |
        awk '$3 < $2 { print $1 }' | grep -vE '\.(Test|Fuzz|Example)[^./]*/' >>"$work/flaky" || true
done
count=$(wc -l <"$work/flaky")
if [ "$count" -gt 0 ]; then
    echo "flaky, failed once and passed when run again ($count, at most $most_flaky):"
    sed 's/^/    /' "$work/flaky"
fi
if [ "$count" -gt "$most_flaky" ]; then
    echo "the run fails: more than $most_flaky tests are flaky"
    status=1
fi
exit "$status"

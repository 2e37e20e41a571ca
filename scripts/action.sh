#!/usr/bin/env bash
# What action.yml runs: the lines of INPUT_RUN in a sandbox, by the other variables
# INPUT_*, which action.yml describes. It ends with the exit status of the lines.
#
# Lines that the sandboxed command prints are no commands to the runner (::set-env::
# and the like): it stops reading such, by a word that the command
# cannot know. GITHUB_ENV, GITHUB_PATH, GITHUB_OUTPUT and the runner's variables do
# not get inside.
set -euo pipefail

fail() {
    echo "::error::$*"
    exit 125
}

# lines VARIABLE: its lines, without blanks around them and without empty ones.
lines() { printf '%s\n' "${!1-}" | sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e '/^$/d'; }

[ -n "${INPUT_RUN-}" ] || fail "the input run is empty"
temp=${RUNNER_TEMP:-${TMPDIR:-/tmp}}

# The program: named, in PATH, or built from the sources that came with the action.
program=${INPUT_SANDBOX-}
if [ -z "$program" ]; then
    program=$(command -v sandbox || true)
fi
if [ -z "$program" ]; then
    built=$ACTION_PATH/bin/sandbox
    if [ ! -x "$built" ]; then
        command -v go >/dev/null || fail "there is no program sandbox in PATH, and no Go to build it: install its package first, or use actions/setup-go"
        make -s -C "$ACTION_PATH" build >&2 || fail "sandbox could not be built"
    fi
    program=$built
fi
[ -x "$program" ] || fail "the program $program cannot be executed"

global=(--provider "${INPUT_PROVIDER:-auto}")
[ -z "${INPUT_CONFIG-}" ] || global+=(--config "$INPUT_CONFIG")
[ -z "${INPUT_STATE_DIR-}" ] || global+=(--state-dir "$INPUT_STATE_DIR")
session=action-${GITHUB_RUN_ID:-0}-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
global+=(--session "$session")

place=(--workspace "${INPUT_WORKSPACE:-$PWD}")
[ -z "${INPUT_IMAGE-}" ] || place+=(--image "$INPUT_IMAGE")
case ${INPUT_WORKSPACE_ACCESS:-rw} in
rw) ;;
private) place+=(--private) ;;
*) fail "the input workspace-access is rw or private, not $INPUT_WORKSPACE_ACCESS" ;;
esac

flags=()
if [ -n "${INPUT_WORKING_DIRECTORY-}" ]; then
    case $INPUT_WORKING_DIRECTORY in
    /*) flags+=(-w "$INPUT_WORKING_DIRECTORY") ;;
    *) flags+=(-w "/workspace/$INPUT_WORKING_DIRECTORY") ;;
    esac
fi
[ -z "${INPUT_TIMEOUT-}" ] || flags+=(--timeout "$INPUT_TIMEOUT")
[ -z "${INPUT_ALLOW-}" ] || flags+=(--allow "$INPUT_ALLOW")
if [ -n "${INPUT_CACHE-}" ]; then
    # What copies the artifacts uses the same sandbox.
    if "$program" cp --help | grep -q -e --cache; then
        place+=(--cache "$INPUT_CACHE")
    else
        flags+=(--cache "$INPUT_CACHE")
    fi
fi
while read -r line; do flags+=(-e "$line"); done < <(lines INPUT_ENV)
while read -r line; do flags+=(--allow-domain "$line"); done < <(lines INPUT_ALLOW_DOMAINS)
while read -r line; do flags+=(--secret "$line"); done < <(lines INPUT_SECRETS)
while read -r line; do flags+=(--service "$line"); done < <(lines INPUT_SERVICES)

case ${INPUT_SHELL:-bash} in
bash) shell=(bash --noprofile --norc -eo pipefail -c) ;;
sh) shell=(sh -e -c) ;;
*) fail "the input shell is bash or sh, not $INPUT_SHELL" ;;
esac

folder=$(mktemp -d "$temp/sandbox-XXXXXXXX")
[ -n "$(lines INPUT_ARTIFACTS)" ] || flags+=(--rm)
flags+=(--report "$folder/report.json")
[ -z "${GITHUB_STEP_SUMMARY-}" ] || flags+=(--summary "$GITHUB_STEP_SUMMARY")

quiet=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$quiet"
status=0
"$program" "${global[@]}" run "${flags[@]}" "${place[@]}" -- "${shell[@]}" "$INPUT_RUN" || status=$?
echo
echo "::$quiet::"

# Artifacts are copied by the sandbox's own means: what is a link to a file outside of
# the workspace is not followed.
artifacts=
if [ -n "$(lines INPUT_ARTIFACTS)" ]; then
    artifacts=$folder/artifacts
    mkdir "$artifacts"
    echo "::stop-commands::$quiet"
    while read -r pattern; do
        while IFS= read -r -d '' path; do
            mkdir -p "$artifacts/$(dirname -- "$path")"
            "$program" "${global[@]}" cp "${place[@]}" "sandbox:$path" "$artifacts/$path" >&2 </dev/null || echo "sandbox: not every file of this artifact was copied" >&2
        done < <("$program" "${global[@]}" fs glob "${place[@]}" -0 -- "$pattern" </dev/null)
    done < <(lines INPUT_ARTIFACTS)
    "$program" "${global[@]}" run --rm "${place[@]}" -- true >&2 || echo "sandbox: the sandbox of the session $session was not removed" >&2
    echo "::$quiet::"
fi

if [ -n "${GITHUB_OUTPUT-}" ]; then
    {
        echo "exit-code=$status"
        echo "report=$folder/report.json"
        echo "artifacts=$artifacts"
    } >>"$GITHUB_OUTPUT"
fi
exit "$status"

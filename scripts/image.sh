#!/bin/sh
# Builds the image of sandboxes, with --browser that of browsers, or with --code
# that of the code interpreter, unless the engine has it made from the recipe in
# this checkout already. Building anew would give it another identity, and every
# container made from the old one would count as changed.
#
#   scripts/image.sh path/to/sandbox [--browser | --code]
set -eu

cd "$(dirname "$0")/.."
usage='usage: scripts/image.sh path/to/sandbox [--browser | --code]'
program=${1:?$usage}
label=dev.bulkhead.sandbox.image.dockerfile-digest

# fresh IMAGE FILE...: the engine has the image made from these files.
fresh() {
    image=$1
    shift
    want=$(cat "$@" | sha256sum | cut -d' ' -f1)
    have=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null || true)
    [ "$have" = "$want" ]
}

case ${2-} in
'')
    fresh sandbox:bookworm-slim Dockerfile.sandbox || "$program" images build
    ;;
--browser)
    fresh sandbox-browser:bookworm-slim Dockerfile.browser browser/entrypoint.sh browser/policies.json browser/settings.sh ||
        "$program" images build --browser
    ;;
--code)
    fresh sandbox-code:bookworm-slim Dockerfile.code images/code/host.py images/code/charts.py images/code/kernels.py images/code/repl.js ||
        "$program" images build --code
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac

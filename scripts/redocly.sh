#!/bin/sh
# Installs what tests lint the OpenAPI document with: @redocly/cli in the version
# and with the digests of scripts/redocly/package-lock.json, and a node that is
# new enough for it, from the registry that npm is set up for. Nothing of it is
# run here.
#
#   scripts/redocly.sh FOLDER
set -eu

folder=${1:?usage: scripts/redocly.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"

if cmp -s redocly/package-lock.json "$folder/package-lock.json" && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "redocly: installing @redocly/cli into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp redocly/package.json redocly/package-lock.json "$folder/"
cd "$folder"
npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
: >.installed

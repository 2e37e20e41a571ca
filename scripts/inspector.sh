#!/bin/sh
# Installs the official client that tests hold the MCP server against: the
# inspector in the version and with the digests of
# scripts/inspector/package-lock.json, and a node that is new enough for it,
# from the registry that npm is set up for. Nothing of it is run here.
#
#   scripts/inspector.sh FOLDER
set -eu

folder=${1:?usage: scripts/inspector.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"

if cmp -s inspector/package-lock.json "$folder/package-lock.json" && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "inspector: installing the MCP inspector into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp inspector/package.json inspector/package-lock.json "$folder/"
cd "$folder"
npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
: >.installed

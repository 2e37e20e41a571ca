#!/bin/sh
# Installs clients of other systems that tests hold the daemon against: for JavaScript
# in the versions and with the digests of scripts/NAME/package-lock.json, for Python
# in the versions of scripts/NAME/requirements.txt, where there is that file, from the
# registries that npm and pip are set up for. Nothing of it is run here. NAME is e2b,
# agents, codingagents, or adapters: the frameworks that have adapters in
# clients/typescript, pyclient or tsclient: what clients/python and clients/typescript
# are tested with.
#
#   scripts/clients.sh NAME FOLDER
set -eu

usage="usage: scripts/clients.sh e2b|agents|codingagents|adapters|pyclient|tsclient FOLDER"
name=${1:?$usage}
folder=${2:?$usage}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"
[ -e "$name/package-lock.json" ] || { echo "$usage" >&2; exit 2; }

same() { [ ! -e "$name/$1" ] || cmp -s "$name/$1" "$folder/$1"; }
if same package-lock.json && same requirements.txt && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "clients: installing those of $name into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp "$name"/* "$folder/"
cd "$folder"
npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
if [ -e requirements.txt ]; then
    python3 -m venv python >&2
    python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt >&2
fi
: >.installed

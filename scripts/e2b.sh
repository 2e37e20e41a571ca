#!/bin/sh
# Installs the clients of E2B that tests hold the daemon against: for JavaScript in
# the versions and with the digests of scripts/e2b/package-lock.json, for Python in
# the versions of scripts/e2b/requirements.txt, from the registries that npm and pip
# are set up for. Nothing of it is run here.
#
#   scripts/e2b.sh FOLDER
set -eu

folder=${1:?usage: scripts/e2b.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"

if cmp -s e2b/package-lock.json "$folder/package-lock.json" && cmp -s e2b/requirements.txt "$folder/requirements.txt" && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "e2b: installing the clients of E2B into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp e2b/package.json e2b/package-lock.json e2b/requirements.txt "$folder/"
cd "$folder"
npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
python3 -m venv python >&2
python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt >&2
: >.installed

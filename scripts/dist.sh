#!/usr/bin/env bash
# Makes what is published of a commit: packages, archives, an image of the daemon,
# bills of materials and checksums. Two runs for the same commit, in any folders,
# make the same bytes.
#
#   scripts/dist.sh OUT
#
# OUT is a new or an empty folder. The image is an OCI layout in a tar file; its
# certificates are those of this machine.
#
# Environment: ARCHES (architectures in Go's names, default "amd64 arm64"), VERSION
# (default from the tag, else the time and the number of the commit).
set -euo pipefail

out=${1:?usage: scripts/dist.sh OUT}
export PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -n "$(ls -A "$out")" ]; then
    echo "dist: $out is not empty; give a new folder, or remove what is in it" >&2
    exit 1
fi
missing=()
for program in buildah jq; do
    command -v "$program" >/dev/null || missing+=("$program")
done
if [ "${#missing[@]}" -gt 0 ]; then
    echo "dist: installing ${missing[*]}" >&2
    sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo --)
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
if [ -z "${VERSION-}" ]; then
    VERSION=$(git describe --tags --exact-match 2>/dev/null) ||
        VERSION=0.0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=12 HEAD)
fi
VERSION=${VERSION#v}
export VERSION
# The commit is in the programs; whether other files lie about is not.
build=(make build STAMP=-buildvcs=true)

# tree writes the tar file $1 with what the other arguments of tar name, as of the
# commit and as root's.
tree() {
    local file=$1
    shift
    tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$file" "$@"
}

# pack puts the folder $2 into the compressed archive $1.
pack() {
    tree "$work/packed.tar" -C "$(dirname "$2")" "$(basename "$2")"
    gzip -n9 <"$work/packed.tar" >"$1"
}

# image makes the image of the daemon for the architecture $1 from the programs in
# the folder $2, in the folder $3, from the recipe of scripts/daemon-image.sh.
image() {
    mkdir "$work/context-$1"
    cp Dockerfile.daemon "$work/context-$1/Dockerfile"
    cp "$2/sandbox-daemon" /etc/ssl/certs/ca-certificates.crt "$work/context-$1"
    cp "$2/sandbox-guest-tls" "$work/context-$1/sandbox-guest"
    local buildah=(buildah --root "$work/buildah" --runroot "$work/buildah-run" --storage-driver vfs)
    "${buildah[@]}" build --quiet --platform "linux/$1" --isolation chroot --format oci --timestamp "$SOURCE_DATE_EPOCH" \
        --tag "sandboxd:$1" "$work/context-$1" >/dev/null
    "${buildah[@]}" push --quiet "sandboxd:$1" "oci:$3:${VERSION/\~/-}"
}

# What is the same for all architectures, by the program of this machine.
echo "dist: manual pages and completions"
mkdir -p "$work/share/man" "$work/share/completion"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/man" ./cmd/sandbox
"$work/man" man "$work/share/man"
gzip -n9 "$work/share/man"/*
for shell in bash zsh fish; do
    "$work/man" completion "$shell" >"$work/share/completion/$shell"
done

for ARCH in ${ARCHES:-amd64 arm64}; do
    echo "dist: programs for $ARCH"
    STAGE=$work/$ARCH
    export ARCH STAGE
    mkdir -p "$STAGE"
    cp -r "$work/share/." "$STAGE"
    GOARCH=$ARCH GOOS=linux "${build[@]}" BIN="$work/bin-$ARCH" >/dev/null
    rm -rf "$work/bin-$ARCH/.built"
    mv "$work/bin-$ARCH" "$STAGE/lib"
    # sandbox-daemon is linked from all that the others are linked from.
    go tool -modfile=deploy/package/go.mod cyclonedx-gomod bin -json -noserial -version "$VERSION" \
        -output "$work/sbom.json" "$STAGE/lib/sandbox-daemon" 2>"$work/sbom.log" || { cat "$work/sbom.log" >&2; exit 1; }
    jq --arg time "$MTIME" '.metadata.timestamp = $time | del(.metadata.tools[].hashes)' "$work/sbom.json" >"$STAGE/sbom.json"
    cp "$STAGE/sbom.json" "$out/sandbox_${VERSION}_linux_$ARCH.cdx.json"
    for format in deb rpm; do
        (cd deploy/package && go tool nfpm package --config nfpm.yaml --packager "$format" --target "$out") >"$work/nfpm.log" 2>&1 ||
            { cat "$work/nfpm.log" >&2; exit 1; }
    done
    top=$work/sandbox_${VERSION}_linux_$ARCH
    mkdir "$top"
    cp -r "$STAGE/lib/." "$STAGE/man" "$STAGE/completion" LICENSE README.md CHANGELOG.md "$top"
    pack "$out/sandbox_${VERSION}_linux_$ARCH.tar.gz" "$top"
    image "$ARCH" "$STAGE/lib" "$work/sandboxd-$ARCH"
    tree "$out/sandboxd_${VERSION}_linux_$ARCH.oci.tar" -C "$work/sandboxd-$ARCH" .
done

# Homebrew builds from the sources of the commit.
git archive --format=tar --prefix="sandbox-$VERSION/" HEAD | gzip -n9 >"$out/sandbox-$VERSION.tar.gz"
sum=$(sha256sum "$out/sandbox-$VERSION.tar.gz" | cut -d' ' -f1)
sed -e "s/@VERSION@/$VERSION/g" -e "s/@SHA256@/$sum/g" deploy/package/sandbox.rb >"$out/sandbox.rb"

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS)
echo "dist: made in $out:"
ls -l "$out"

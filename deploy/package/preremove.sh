#!/bin/sh
# Before the files go for good, and not for an upgrade: end the service.
set -e
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl disable --now sandboxd.socket sandboxd.service
fi

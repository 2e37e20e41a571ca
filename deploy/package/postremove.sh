#!/bin/sh
# After the files are gone: forget the units and remove the folder of the socket.
# The user stays, because its state does, in /var/lib/sandboxd.
set -e
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
rm -rf /run/sandboxd
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi

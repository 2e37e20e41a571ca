# clear ROOT DIR NAME: remove a tree of which folders may be closed to their
# owner. A folder is opened before find goes into it.
root "$1"
[ -z "$single" ] || exit $E_BUSY
enter "$2"
[ "$3" != . ] || exit $E_BUSY
! gone "$3" || exit $E_NOENT
if [ -d "./$3" ] && [ ! -L "./$3" ]; then
	find "./$3" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
fi
rm -rf "./$3" || exit $E_UTILITY

# remove ROOT DIR NAME RECURSIVE: a link is removed, never what it points to.
root "$1"
[ -z "$single" ] || exit $E_BUSY
enter "$2"
[ "$3" != . ] || exit $E_BUSY
if [ -L "./$3" ]; then
	rm -f "./$3" || exit $E_UTILITY
elif [ -d "./$3" ] && [ "$4" = 1 ]; then
	rm -rf "./$3" || exit $E_UTILITY
elif [ -d "./$3" ]; then
	rmdir "./$3" || exit $E_UTILITY
else
	[ -e "./$3" ] || exit $E_NOENT
	rm -f "./$3" || exit $E_UTILITY
fi

# stat ROOT DIR NAME FOLLOW: one record, see listing.go.
root "$1"
enter "$2"
if [ "$4" = 1 ] || [ -n "$single" ]; then
	resolve "$3"
else
	B=$3
fi
! gone "$B" || exit $E_NOENT
stat -c '%f %s %Y .//' "./$B" || exit $E_UTILITY

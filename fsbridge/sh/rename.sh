# rename ROOT DIR NAME DIR2 NAME2: both names are taken as they are, links
# included. The second folder is held open, so that swapping it has no effect.
tmp=
root "$1"
[ -z "$single" ] || exit $E_BUSY
[ "$3" != . ] && [ "$5" != . ] || exit $E_BUSY
enter "$4"
to=$H
target=$to/$5
if [ -r . ]; then
	exec 5<.
	[ ! -d /proc/self/fd/5 ] || target=/proc/self/fd/5/$5
fi
isdir=0
[ -L "./$5" ] || [ ! -d "./$5" ] || isdir=1
isfile=0
[ $isdir = 1 ] || gone "$5" || isfile=1
cd -P "$R" || exit $E_NOROOT
enter "$2"
[ "$H" != "$to" ] || target=./$5
! gone "$3" || exit $E_NOENT
[ "$target" != "./$3" ] || exit 0
if [ -d "./$3" ] && [ ! -L "./$3" ]; then
	[ $isfile = 0 ] || exit $E_NOTDIR
	case $to/ in
	"$H/$3"/*) exit $E_INVAL ;;
	esac
else
	[ $isdir = 0 ] || exit $E_ISDIR
fi
replace "./$3" "$target"

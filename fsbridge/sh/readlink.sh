# readlink ROOT DIR NAME: the target and a newline.
root "$1"
[ -z "$single" ] || exit $E_INVAL
enter "$2"
! gone "$3" || exit $E_NOENT
[ -L "./$3" ] || exit $E_INVAL
readlink "./$3" || exit $E_UTILITY

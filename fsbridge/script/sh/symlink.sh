# symlink ROOT DIR NAME TARGET
root "$1"
[ -z "$single" ] || exit $E_EXIST
enter "$2"
gone "$3" || exit $E_EXIST
ln -s -- "$4" "./$3" || exit $E_UTILITY

# mkdir ROOT DIR NAME PERM
root "$1"
[ -z "$single" ] || exit $E_EXIST
enter "$2"
gone "$3" || exit $E_EXIST
mkdir -m "$4" "./$3" || exit $E_UTILITY

# readdir ROOT DIR: a record for each entry, then "end" and the status of
# find. An entry that vanishes meanwhile makes stat complain, which the host
# knows to ignore.
root "$1"
[ -z "$single" ] || exit $E_NOTDIR
enter "$2"
[ -r . ] || exit $E_ACCES
find . ! -name . -prune -exec stat -c '%f %s %Y %n//' {} +
echo "end $?"

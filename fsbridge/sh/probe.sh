# probe: name the utilities that are missing, and whether one file can be
# written through to the disk.
for u in cat chmod dd find head ln mkdir mv readlink rm rmdir stat tail wc; do
	command -v "$u" >/dev/null 2>&1 || echo "missing $u"
done
if command -v sync >/dev/null 2>&1 && sync / >/dev/null 2>&1; then
	echo durable
fi
echo end

package local

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// trusted is [Trusted] for an instance that shows views.
func (p *Provider) trusted(program string, views []plan.View) error {
	var writable []string
	for _, v := range views {
		if v.Write {
			writable = append(writable, v.Source)
		}
	}
	return Trusted(p.o.World(), program, writable...)
}

// rootsAlone reports whether only root of this host can put another program in
// the place of this one: nothing inside an instance can, whatever it may write.
func rootsAlone(program string) bool {
	canonical, via, err := hostpath.Trace(program)
	if err != nil {
		return false
	}
	for _, place := range append(via, canonical) {
		for ; ; place = path.Dir(place) {
			var st unix.Stat_t
			if err := unix.Lstat(place, &st); err != nil || st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o022 != 0 {
				return false
			}
			if place == "/" {
				break
			}
		}
	}
	return true
}

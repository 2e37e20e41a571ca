package config

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFresh(t *testing.T) {
	at := time.Unix(1000, 500_000_000)
	since := func(d time.Duration) time.Duration { return time.Duration(at.UnixNano()) - d }
	for name, tt := range map[string]struct {
		s    stamp
		want bool
	}{
		"now":                         {stamp{ctime: since(0)}, true},
		"a tick ago":                  {stamp{ctime: since(grain - 1)}, true},
		"long enough ago":             {stamp{ctime: since(grain), mtime: since(0)}, false},
		"in the future":               {stamp{ctime: since(-time.Hour)}, true},
		"a second ago, in seconds":    {stamp{ctime: 999 * time.Second, mtime: 999 * time.Second}, true},
		"seconds ago, in seconds":     {stamp{ctime: 998 * time.Second, mtime: 5 * time.Second}, false},
		"in seconds by one time only": {stamp{ctime: 999 * time.Second, mtime: 5}, false},
		"no file":                     {stamp{errno: unix.ENOENT}, false},
	} {
		if got := tt.s.fresh(at); got != tt.want {
			t.Errorf("%s: fresh is %v", name, got)
		}
	}
}

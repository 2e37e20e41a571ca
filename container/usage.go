package container

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/bulkhead-dev/sandbox"
)

// maxStats bounds the statistics document of one container.
const maxStats = 1 << 20

func decodeUsage(r io.Reader) (sandbox.Usage, error) {
	var s container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r, maxStats)).Decode(&s); err != nil {
		return sandbox.Usage{}, err
	}
	u := sandbox.Usage{
		CPU:         time.Duration(s.CPUStats.CPUUsage.TotalUsage),
		Memory:      int64(s.MemoryStats.Usage),
		MemoryLimit: int64(s.MemoryStats.Limit),
		PIDs:        int64(s.PidsStats.Current),
		PIDsLimit:   int64(s.PidsStats.Limit),
	}
	// The page cache is given back under pressure and does not count,
	// under its name in version 1 and 2 of control groups.
	for _, key := range []string{"total_inactive_file", "inactive_file"} {
		if cache, ok := s.MemoryStats.Stats[key]; ok {
			if int64(cache) < u.Memory {
				u.Memory -= int64(cache)
			}
			break
		}
	}
	for _, b := range s.BlkioStats.IoServiceBytesRecursive {
		switch strings.ToLower(b.Op) {
		case "read":
			u.DiskRead += int64(b.Value)
		case "write":
			u.DiskWritten += int64(b.Value)
		}
	}
	for _, n := range s.Networks {
		u.NetReceived += int64(n.RxBytes)
		u.NetSent += int64(n.TxBytes)
	}
	return u, nil
}

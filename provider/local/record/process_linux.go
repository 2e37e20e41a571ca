package record

import "github.com/bulkhead-dev/sandbox/provider/local/procs"

// A Process is the first process of a wall, as the host numbers it.
type Process = procs.ID

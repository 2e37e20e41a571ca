package fetch

import "time"

// Every host and proxy of the tests ends its connections by itself, and none is
// cut off because the machine is busy.
func init() { farewell = time.Minute }

package docker

import "time"

// An engine that is busy may answer a create late, and what a test looks for
// after it has cancelled one is there or not only then.
func init() { afterCancel = time.Minute }

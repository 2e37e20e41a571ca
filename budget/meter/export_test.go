package meter

import "github.com/bulkhead-dev/sandbox/internal/testenv/poll"

// Every operation of the tests can settle, however long others keep the accounts
// of a busy disk.
func init() { settling = poll.Patience }

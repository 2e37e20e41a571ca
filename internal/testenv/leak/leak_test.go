package leak_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox/internal/testenv/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestFind(t *testing.T) {
	known, quit := goleak.IgnoreCurrent(), make(chan struct{})
	leak.None(t, known)
	go func() { <-quit }()
	if leak.Find(0, known) == nil {
		t.Error("a goroutine that stays is no leak")
	}
	time.AfterFunc(time.Second, func() { close(quit) }) // later than goleak waits by itself
	leak.None(t, known)
}

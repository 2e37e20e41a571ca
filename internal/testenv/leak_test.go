package testenv_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFind(t *testing.T) {
	known, quit := goleak.IgnoreCurrent(), make(chan struct{})
	testenv.None(t, known)
	go func() { <-quit }()
	if testenv.Find(0, known) == nil {
		t.Error("a goroutine that stays is no leak")
	}
	time.AfterFunc(time.Second, func() { close(quit) }) // later than goleak waits by itself
	testenv.None(t, known)
}

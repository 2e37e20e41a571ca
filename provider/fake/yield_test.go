package fake

import "testing"

// TestYieldWhenKilled holds that a process ends that is killed while it takes
// back what had woken it: nothing would wake it again.
func TestYieldWhenKilled(t *testing.T) {
	p := new(tree).newProc(nil)
	over := make(chan bool, 1)
	go func() {
		on := false
		defer func() { over <- !on }()
		p.yield(p.end)
		on = true
	}()
	if !<-over {
		t.Error("it reads on")
	}
}

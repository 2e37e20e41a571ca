package egress

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// A gate is a connection whose writes block until released.
type gate struct {
	net.Conn
	writing, open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	close(g.writing)
	<-g.open
	return len(p), nil
}

// TestAskedBeforeTheAnswer checks that no response begins while "100 Continue"
// is being sent, and that it is not sent afterwards.
func TestAskedBeforeTheAnswer(t *testing.T) {
	const soon = 20 * time.Millisecond // in which an answer that does not wait begins
	g := &gate{writing: make(chan struct{}), open: make(chan struct{})}
	x := &exchange{
		line: &line{conn: g, bottom: &counted{}}, head: requestHead{Length: 9}, req: &http.Request{Body: http.NoBody}, still: time.NewTimer(time.Hour),
	}
	b := &body{x: x, expects: true}
	read, answers := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		_, _ = b.Read(make([]byte, 1))
	}()
	<-g.writing
	go func() {
		defer close(answers)
		b.answering()
	}()
	select {
	case <-answers:
		t.Error("the answer begins while the program is asked")
	case <-time.After(soon):
	}
	close(g.open)
	<-read
	<-answers
	b = &body{x: x, expects: true}
	b.answering()
	_, _ = b.Read(make([]byte, 1)) // a second write would close what is closed
}

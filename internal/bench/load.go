//go:build linux

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// loadCommand is the hidden command that the benchmarks run inside a sandbox,
// and on the host beside it: it fetches through the proxy, or directly where no
// proxy is given. For each line of its input it does its work once and prints
// the times that it took, in nanoseconds.
const loadCommand = "load"

// A job is what is done for each line.
type job struct {
	proxy, at string // addresses; an empty proxy means directly
	n         int    // requests or connections a line
	bytes     int64  // of one download

	kept   net.Conn // of requests
	reader *bufio.Reader
}

func load(args []string, in io.Reader, out io.Writer) error {
	var j job
	f := flag.NewFlagSet(loadCommand, flag.ContinueOnError)
	f.StringVar(&j.proxy, "proxy", "", "`address` of the proxy")
	f.StringVar(&j.at, "at", "", "`address` of the server")
	f.IntVar(&j.n, "n", 1, "requests or connections for each line")
	f.Int64Var(&j.bytes, "bytes", 0, "size of a download")
	if err := f.Parse(args); err != nil {
		return err
	}
	do, ok := map[string]func() ([]time.Duration, error){
		"request": j.requests, "connect": j.connects, "fetch": j.fetch, "tunnel": j.tunnel, "hold": j.hold,
	}[f.Arg(0)]
	if !ok {
		return errors.New("which work is to be done is not said")
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		times, err := do()
		if err != nil {
			return err
		}
		words := make([]string, len(times))
		for i, d := range times {
			words[i] = fmt.Sprint(d.Nanoseconds())
		}
		if _, err := fmt.Fprintln(out, strings.Join(words, " ")); err != nil {
			return err
		}
	}
	return nil
}

// requests sends requests over one connection that stays.
func (j *job) requests() ([]time.Duration, error) {
	if j.kept == nil {
		var err error
		if j.kept, err = net.Dial("tcp", j.first()); err != nil {
			return nil, err
		}
		j.reader = bufio.NewReader(j.kept)
	}
	times := make([]time.Duration, j.n)
	for i := range times {
		begun := time.Now()
		if err := j.get(j.kept, j.reader, j.form("/"), 2); err != nil {
			return nil, err
		}
		times[i] = time.Since(begun)
	}
	return times, nil
}

// connects makes a connection of its own for each request, and a tunnel where
// there is a proxy.
func (j *job) connects() ([]time.Duration, error) {
	times := make([]time.Duration, j.n)
	for i := range times {
		begun := time.Now()
		c, err := j.dial()
		if err == nil {
			err = errors.Join(j.get(c, bufio.NewReader(c), "/", 2), c.Close())
		}
		if err != nil {
			return nil, err
		}
		times[i] = time.Since(begun)
	}
	return times, nil
}

// fetch downloads by a plain request, tunnel through a tunnel.
func (j *job) fetch() ([]time.Duration, error) {
	return j.download(func() (net.Conn, error) { return net.Dial("tcp", j.first()) }, j.form(j.zeros()))
}

func (j *job) tunnel() ([]time.Duration, error) { return j.download(j.dial, j.zeros()) }

func (j *job) download(dial func() (net.Conn, error), target string) ([]time.Duration, error) {
	begun := time.Now()
	c, err := dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = j.get(c, bufio.NewReaderSize(c, 256<<10), target, j.bytes)
	return []time.Duration{time.Since(begun)}, err
}

// hold opens connections that are all open until the server, which waits for
// those of everybody, has answered each.
func (j *job) hold() ([]time.Duration, error) {
	begun := time.Now()
	all := make([]net.Conn, 0, j.n)
	defer func() {
		// Reset, so that no port waits for a minute before it can be used again.
		for _, c := range all {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	for range j.n {
		c, err := j.dial()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		if _, err := c.Write([]byte("?")); err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		answer := make([]byte, 1)
		if _, err := io.ReadFull(c, answer); err != nil {
			return nil, err
		}
	}
	return []time.Duration{time.Since(begun)}, nil
}

func (j *job) zeros() string { return fmt.Sprintf("/zeros?n=%d", j.bytes) }

// first returns the address that the program connects to.
func (j *job) first() string {
	if j.proxy != "" {
		return j.proxy
	}
	return j.at
}

// form is the request's target as the first one in line wants it.
func (j *job) form(path string) string {
	if j.proxy != "" {
		return "http://" + j.at + path
	}
	return path
}

// get fetches the target, of which exactly so many bytes have to come.
func (j *job) get(c net.Conn, r *bufio.Reader, target string, want int64) error {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, j.at); err != nil {
		return err
	}
	a, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, a.Body)
	if err == nil && (a.StatusCode != http.StatusOK || n != want) {
		err = fmt.Errorf("%s with %d bytes, want %d", a.Status, n, want)
	}
	return err
}

// dial connects to the server, through the proxy where there is one.
func (j *job) dial() (net.Conn, error) {
	c, err := net.Dial("tcp", j.first())
	if err != nil || j.proxy == "" {
		return c, err
	}
	if _, err = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", j.at, j.at); err == nil {
		r := bufio.NewReader(c)
		var a *http.Response
		if a, err = http.ReadResponse(r, &http.Request{Method: http.MethodConnect}); err == nil && (a.StatusCode != http.StatusOK || r.Buffered() > 0) {
			why, _ := io.ReadAll(io.LimitReader(a.Body, 512)) // as far as it says
			err = fmt.Errorf("CONNECT: %s: %s", a.Status, why)
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

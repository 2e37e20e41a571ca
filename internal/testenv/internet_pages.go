package testenv

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// files serves /greeting.txt, and /zeros?n=N with so many zero bytes.
func files() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /greeting.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, Content)
	})
	m.HandleFunc("GET /zeros", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.FormValue("n"), 10, 64)
		if err != nil || n < 0 {
			http.Error(w, "n is a number of bytes", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		for chunk := make([]byte, 64<<10); n > 0; n -= int64(len(chunk)) {
			if _, err := w.Write(chunk[:min(n, int64(len(chunk)))]); err != nil {
				return
			}
		}
	})
	return m
}

// echo answers with the request line, the fields as they arrived and the body.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	r.Header.Write(w)
	io.WriteString(w, "\n")
	io.Copy(w, r.Body)
}

func redirect(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil || code < 300 || code > 399 {
		code = http.StatusFound
	}
	http.Redirect(w, r, r.FormValue("to"), code)
}

// slow begins an answer that never ends.
func slow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "2")
	w.Write([]byte("."))
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// upgrade switches to a protocol that sends everything back.
func upgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "echo" {
		w.Header().Set("Upgrade", "echo")
		http.Error(w, "only echo is spoken here", http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer c.Close()
	say(rw.Writer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	io.Copy(c, rw.Reader)
}

func say(w *bufio.Writer, text string) {
	w.WriteString(text)
	w.Flush() // a client that is gone shows in what it does not get
}

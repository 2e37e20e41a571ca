package attack

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/testenv/internet"
)

// greet answers like internet.Files, and ends the connection when it is asked to.
func greet() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "close") {
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, internet.Content)
	})
}

// basic is what Basic authorization says.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

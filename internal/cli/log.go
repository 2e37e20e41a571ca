package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// newLog returns a log that writes lines for people to w.
func newLog(w io.Writer, level string) logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(w)
	l.SetFormatter(lines{})
	if parsed, err := logrus.ParseLevel(level); err == nil {
		l.SetLevel(parsed)
	}
	return l
}

// lines formats a log entry as "sandbox: level: message key=value". Text
// from outside is made safe for a terminal.
type lines struct{}

// Format implements logrus.Formatter.
func (lines) Format(e *logrus.Entry) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("sandbox: ")
	if e.Logger != nil && e.Logger.IsLevelEnabled(logrus.DebugLevel) {
		b.WriteString(e.Time.Format(time.StampMilli) + " ")
	}
	fmt.Fprintf(&b, "%s: %s", e.Level, termsafe.Line(e.Message))
	for _, k := range slices.Sorted(maps.Keys(e.Data)) {
		fmt.Fprintf(&b, " %s=%s", termsafe.Line(k), termsafe.Line(fmt.Sprint(e.Data[k])))
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

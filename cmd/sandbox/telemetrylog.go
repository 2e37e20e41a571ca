//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/bulkhead-dev/sandbox"
	servers "github.com/bulkhead-dev/sandbox/server"
)

// A logHook exports what the program logs, beside its ordinary output. The
// contributed bridge for logrus is not maintained any more.
type logHook struct {
	logger log.Logger
	over   atomic.Bool
}

// maxLogBody is the length in bytes at which the text of an exported log record is
// cut. Its attributes are cut at [sandbox.MaxSpanText].
const maxLogBody = 4 << 10

// Levels implements [logrus.Hook].
func (*logHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel, logrus.InfoLevel}
}

// severities are the levels of logrus by the data model of OpenTelemetry.
var severities = map[logrus.Level]log.Severity{
	logrus.PanicLevel: log.SeverityFatal4, logrus.FatalLevel: log.SeverityFatal, logrus.ErrorLevel: log.SeverityError,
	logrus.WarnLevel: log.SeverityWarn, logrus.InfoLevel: log.SeverityInfo,
}

// exportedFields are the fields of the log that are exported: names of ours, and not
// what a panic, a slot or a reason may quote.
var exportedFields = map[string]bool{
	"sandbox": true, "request": true, "method": true, "route": true, "loop": true, "provider": true, "address": true, "grace": true, "tool": true,
}

// failed notes an error by its code and operation. Its text stays in the log of this
// machine: it may quote a command line, a path or an address.
func failed(r *log.Record, err error) {
	r.AddAttributes(attribute.String("error.type", string(sandbox.CodeOf(err))))
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		r.AddAttributes(attribute.String("sandbox.op", cut(e.Op, sandbox.MaxSpanText)))
		if e.Field != "" {
			r.AddAttributes(attribute.String("sandbox.field", cut(e.Field, sandbox.MaxSpanText)))
		}
	}
}

// Fire implements [logrus.Hook]. It returns at once: records wait in a queue.
func (h *logHook) Fire(e *logrus.Entry) error {
	if h.over.Load() {
		return nil
	}
	var r log.Record
	r.SetTimestamp(e.Time)
	r.SetSeverity(severities[e.Level])
	r.SetSeverityText(e.Level.String())
	r.SetBody(attribute.StringValue(cut(e.Message, maxLogBody)))
	for name, value := range e.Data {
		if err, ok := value.(error); ok {
			failed(&r, err)
		} else if exportedFields[name] {
			r.AddAttributes(attribute.String("sandbox.log."+name, cut(fmt.Sprint(value), sandbox.MaxSpanText)))
		}
	}
	ctx := context.Background()
	if e.Context != nil {
		ctx = servers.TraceContext(e.Context)
	}
	h.logger.Emit(ctx, r)
	return nil
}

// cut returns s as valid UTF-8 of at most most bytes.
func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

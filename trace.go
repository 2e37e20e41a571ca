package sandbox

import (
	"context"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// A Span is one step of a call in a trace: its name, its times and some
// attributes. The methods of a nil Span do nothing, so code that makes spans need
// not ask whether a trace is recorded. A Span is safe for concurrent use.
//
// Spans are for operators and may leave the machine. They hold names, numbers and
// codes, and never the text of a command, a variable's value, the content of a
// file, a header or the query of a URL.
type Span struct {
	rec   SpanRecorder
	ended atomic.Bool
}

// A SpanRecorder records one span. It is what package sandbox knows of
// OpenTelemetry, which it does not import: a program that runs one command and
// exports nothing does not pay for loading it.
//
// Spans begin, have events and end at the time of the call. The methods are called for
// a span that has not ended, and may be called by several goroutines at a time.
type SpanRecorder interface {
	// Start begins a span below this one.
	Start(name string, kind SpanKind) SpanRecorder
	String(key, value string)
	Int(key string, value int64)
	Bool(key string, value bool)
	Event(name string)
	// Fail marks the span as failed; code is the value of error.type.
	Fail(code string)
	End()
	// TraceParent returns the ids of the span as the header traceparent of W3C
	// Trace Context.
	TraceParent() string
}

// A SpanKind is the role of a span, as OpenTelemetry defines it.
type SpanKind int

// The kinds.
const (
	SpanInternal SpanKind = iota
	SpanServer            // a request that was received
	SpanClient            // a request or connection to another host
)

// MaxSpanText is the length in bytes at which texts in spans are cut.
const MaxSpanText = 256

type spanKey struct{}

// NewSpan returns a span that rec records.
func NewSpan(rec SpanRecorder) *Span { return &Span{rec: rec} }

// WithSpan returns a context in which s is the current span; with a nil s it has
// none.
func WithSpan(ctx context.Context, s *Span) context.Context {
	if s == SpanOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// SpanOf returns the current span of ctx, or nil if no trace is recorded.
func SpanOf(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// StartSpan begins a span below the current one of ctx, and returns a context in
// which it is current. If no trace is recorded it returns ctx and nil.
func StartSpan(ctx context.Context, name string) (context.Context, *Span) {
	parent := SpanOf(ctx)
	if parent == nil {
		return ctx, nil
	}
	s := parent.Child(name, SpanInternal)
	return WithSpan(ctx, s), s
}

// Child begins a span below s.
func (s *Span) Child(name string, kind SpanKind) *Span {
	if s == nil {
		return nil
	}
	return NewSpan(s.rec.Start(name, kind))
}

// Recorder returns what records s, or nil.
func (s *Span) Recorder() SpanRecorder {
	if s == nil {
		return nil
	}
	return s.rec
}

func (s *Span) open() bool { return s != nil && !s.ended.Load() }

// String sets an attribute. The value is cut at [MaxSpanText], and what is not
// printable UTF-8 in it is replaced. An empty value sets nothing.
func (s *Span) String(key, value string) {
	if value != "" && s.open() {
		s.rec.String(key, spanText(value))
	}
}

// Int sets an attribute.
func (s *Span) Int(key string, value int64) {
	if s.open() {
		s.rec.Int(key, value)
	}
}

// Bool sets an attribute.
func (s *Span) Bool(key string, value bool) {
	if s.open() {
		s.rec.Bool(key, value)
	}
}

// Event adds an event that has happened now.
func (s *Span) Event(name string) {
	if s.open() {
		s.rec.Event(name)
	}
}

// Fail marks the span as failed with the code of err. The text of err, which may
// quote a command or a path, is not recorded. A nil err changes nothing.
func (s *Span) Fail(err error) {
	if err != nil && s.open() {
		s.rec.Fail(string(CodeOf(err)))
	}
}

// End ends the span. Only the first End counts, and nothing is recorded after it.
func (s *Span) End() {
	if s != nil && s.ended.CompareAndSwap(false, true) {
		s.rec.End()
	}
}

// EndWith calls Fail and End.
func (s *Span) EndWith(err error) {
	s.Fail(err)
	s.End()
}

// TraceParent returns the ids of the span as the header traceparent of W3C Trace
// Context, or "".
func (s *Span) TraceParent() string {
	if s == nil {
		return ""
	}
	return s.rec.TraceParent()
}

// spanText returns s as spans hold it.
func spanText(s string) string {
	if len(s) > MaxSpanText {
		end := MaxSpanText
		for end > MaxSpanText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return strings.Map(func(r rune) rune { // of invalid UTF-8 r is the replacement character
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

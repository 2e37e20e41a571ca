package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Size is a number of bytes. Settings write it as a number or as "64k",
// "512m", "2g", "1t" in powers of 1024.
type Size int64

var sizeUnits = [...]struct {
	letter string
	bytes  int64
}{{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}}

// ParseSize reads a size with an optional unit k, m, g or t in either case,
// which may be followed by "b" or "ib". Fractions and signs are errors.
func ParseSize(s string) (Size, error) {
	digits := strings.ToLower(s)
	unit := int64(1)
	digits = strings.TrimSuffix(digits, "b")
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(digits, u.letter); ok {
			digits, unit = d, u.bytes
			break
		}
		if d, ok := strings.CutSuffix(digits, u.letter+"i"); ok && strings.HasSuffix(strings.ToLower(s), "ib") {
			digits, unit = d, u.bytes
			break
		}
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no size; write bytes or a whole number with k, m, g or t", s)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return Size(n * unit), nil
}

// String is the shortest form that [ParseSize] reads back to the same value.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.letter
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalJSON writes the form of String.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// A Volume is a number of bytes that may be used in all. Settings write it like
// a [Size]; -1 is no bound.
type Volume int64

// ParseVolume reads -1 or a size as [ParseSize] does.
func ParseVolume(s string) (Volume, error) {
	if s == "-1" {
		return -1, nil
	}
	n, err := ParseSize(s)
	return Volume(n), err
}

// String is the shortest form that [ParseVolume] reads back to the same value.
func (v Volume) String() string {
	if v < 0 {
		return "-1"
	}
	return Size(v).String()
}

// MarshalJSON writes the form of String.
func (v Volume) MarshalJSON() ([]byte, error) { return json.Marshal(v.String()) }

// A Duration is a span of time. Settings write it as in Go ("90s", "1h30m")
// with the further unit d for days of 24 hours ("7d"), or as the number 0.
type Duration time.Duration

const day = 24 * time.Hour

// ParseDuration reads a duration that is not negative.
func ParseDuration(s string) (Duration, error) {
	var days time.Duration
	rest := s
	if n, after, ok := strings.Cut(s, "d"); ok {
		v, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration; write it like 90s, 10m, 24h or 7d", s)
		}
		days, rest = time.Duration(v)*day, after
	}
	var d time.Duration
	if rest != "" || days == 0 && !strings.HasSuffix(s, "d") {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, fmt.Errorf("%q is no duration; write it like 90s, 10m, 24h or 7d", s)
		}
	}
	if d < 0 || d > math.MaxInt64-days {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return Duration(days + d), nil
}

// String is a short form that [ParseDuration] reads back to the same value.
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t == 0:
		return "0s"
	case t%day == 0 && t > day:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the form of String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// A Ulimit is a soft and a hard limit; -1 is unlimited. Settings write it as a
// number for both, as "SOFT:HARD", or as an object.
type Ulimit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// ParseUlimit reads "N" or "SOFT:HARD".
func ParseUlimit(s string) (Ulimit, error) {
	soft, hard, both := strings.Cut(s, ":")
	if !both {
		hard = soft
	}
	a, errA := strconv.ParseInt(soft, 10, 64)
	b, errB := strconv.ParseInt(hard, 10, 64)
	if errA != nil || errB != nil {
		return Ulimit{}, fmt.Errorf("%q is no limit; write a number or SOFT:HARD", s)
	}
	return Ulimit{Soft: a, Hard: b}, nil
}

package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// serviceFlags say what runs beside a command.
type serviceFlags struct{ list services }

func (f *serviceFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "service", Usage: "run a service beside the command, which reaches it by its name: `NAME=IMAGE[,FIELD=VALUE]…`; the fields are port=[LISTEN:]PORT, env=NAME=VALUE, command=LINE, ready=LINE and within=TIME", Value: &f.list},
	}
}

// services is the value of --service.
type services struct{ values []manager.Service }

// String implements flag.Value.
func (s *services) String() string { return "" }

// Set implements flag.Value.
func (s *services) Set(text string) error {
	one, err := parseService(text)
	if err == nil {
		s.values = append(s.values, one)
	}
	return err
}

// parseService reads NAME=IMAGE and fields behind it, which are separated by commas
// as in a line of CSV, so that a field with a comma is put in double quotes.
func parseService(text string) (s manager.Service, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.LazyQuotes = true // those of a shell, in a line that needs none of ours
	fields, err := r.Read()
	if err != nil || len(fields) == 0 || strings.ContainsAny(text, "\n\r") {
		return s, errors.New("it must be NAME=IMAGE and fields, separated by commas; put a field that holds a comma in double quotes")
	}
	var ok bool
	if s.Name, s.Image, ok = strings.Cut(fields[0], "="); !ok || s.Name == "" {
		return s, errors.New("it must begin with NAME=IMAGE; with provider local, NAME= and a command")
	}
	for _, field := range fields[1:] {
		key, value, ok := strings.Cut(field, "=")
		if !ok || value == "" {
			return s, fmt.Errorf("the field %q has no value", field)
		}
		switch key {
		case "port":
			listen, port, two := strings.Cut(value, ":")
			if !two {
				listen, port = "", value
			}
			if s.Port, err = portNumber(port); err == nil && two {
				s.Listen, err = portNumber(listen)
			}
		case "env":
			name, v, ok := strings.Cut(value, "=")
			if !ok || name == "" {
				return s, fmt.Errorf("the field %q must be env=NAME=VALUE", field)
			}
			if s.Env == nil {
				s.Env = map[string]string{}
			}
			s.Env[name] = v
		case "command":
			s.Command = []string{"/bin/sh", "-c", value}
		case "ready":
			s.Ready = []string{"/bin/sh", "-c", value}
		case "within":
			d, e := config.ParseDuration(value)
			if s.Within, err = time.Duration(d), e; e == nil && d <= 0 {
				err = errors.New("within must be longer than nothing")
			}
		default:
			return s, fmt.Errorf("there is no field %q; write port, env, command, ready or within", key)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func portNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is no port: a number from 1 to 65535", text)
	}
	return int(n), nil
}

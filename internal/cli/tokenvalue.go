package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// checkExpiry accepts how long a token is good.
func checkExpiry(s string) error {
	if s == noExpiry {
		return nil
	}
	d, err := config.ParseDuration(s)
	if err == nil && d == 0 {
		err = errors.New("it must be longer than nothing")
	}
	return err
}

// mustExpiry reads what checkExpiry has accepted, and is not noExpiry.
func mustExpiry(s string) time.Duration {
	d, err := config.ParseDuration(s)
	if err != nil {
		return 0 // which is in the past, and refused
	}
	return time.Duration(d)
}

// cpusName is the name of processors where people write it.
const cpusName = "cpus"

// quotaNames are the names of quotas in --quota.
func quotaNames() []string {
	var out []string
	for k := range tenant.NumKinds {
		out = append(out, quotaName(k))
	}
	return out
}

func quotaName(k tenant.Kind) string {
	if k == tenant.NanoCPUs {
		return cpusName
	}
	return k.String()
}

// parseQuota returns the limits with what NAME=N says.
func parseQuota(l tenant.Limits, s string) (tenant.Limits, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return l, errors.New("write it as NAME=N")
	}
	for k := range tenant.NumKinds {
		if quotaName(k) != name {
			continue
		}
		n, err := quotaValue(k, value)
		if err != nil {
			return l, fmt.Errorf("%s: %w", name, err)
		}
		return l.With(k, n), nil
	}
	return l, fmt.Errorf("%q is none of %s", name, strings.Join(quotaNames(), ", "))
}

// budgetNames are the names of what --budget bounds.
func budgetNames() []string {
	var out []string
	for k := range budget.NumKinds {
		out = append(out, k.String())
	}
	return out
}

// parseBudget returns the bound with what NAME=N says.
func parseBudget(a budget.Amount, s string) (budget.Amount, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return a, errors.New("write it as NAME=N")
	}
	v := budget.Values(a)
	for k := range budget.NumKinds {
		if k.String() != name {
			continue
		}
		n, err := budgetValue(k, value)
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		v[k] = n
		return budget.FromValues(v), nil
	}
	return a, fmt.Errorf("%q is none of %s", name, strings.Join(budgetNames(), ", "))
}

func budgetValue(k budget.Kind, value string) (int64, error) {
	if k == budget.BytesIn || k == budget.BytesOut {
		size, err := config.ParseSize(value)
		return int64(size), err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("it must be a number that is not negative")
	}
	return n, nil
}

func quotaValue(k tenant.Kind, value string) (int64, error) {
	switch k {
	case tenant.Memory, tenant.Disk:
		size, err := config.ParseSize(value)
		return int64(size), err
	case tenant.NanoCPUs:
		cpus, err := strconv.ParseFloat(value, 64)
		if err != nil || !(cpus >= 0 && cpus <= 1e6) {
			return 0, errors.New("it must be a number of processors, like 2 or 0.5")
		}
		return int64(math.Round(cpus * 1e9)), nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("it must be a number that is not negative")
	}
	return n, nil
}

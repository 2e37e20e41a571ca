//go:build linux

package main

import (
	"slices"
	"time"
)

// A Summary is what a table tells of many samples.
type Summary struct {
	N   int           `json:"n"`
	Min time.Duration `json:"minNs"`
	P50 time.Duration `json:"p50Ns"`
	P95 time.Duration `json:"p95Ns"`
	P99 time.Duration `json:"p99Ns"`
	Max time.Duration `json:"maxNs"`
}

// Percentile returns the p-th percentile of samples in ascending order by
// the nearest-rank method: the smallest sample that at least p percent of
// all samples do not exceed. Every percentile is therefore a time that was
// measured. p is clamped to 1..100; no samples give zero.
func percentileReport(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	p = min(max(p, 1), 100)
	rank := (p*len(sorted) + 99) / 100
	return sorted[rank-1]
}

// Summarize returns the summary of samples, which stay in their order.
func summarizeReport(samples []time.Duration) Summary {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return Summary{}
	}
	return Summary{
		N: len(s), Min: s[0], Max: s[len(s)-1],
		P50: percentileReport(s, 50), P95: percentileReport(s, 95), P99: percentileReport(s, 99),
	}
}

package budget

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// numbers are what meets at every edge.
var numbers = []int64{Unlimited, 0, 1, 7, 8, 1000, math.MaxInt64 - 1, math.MaxInt64}

// TestKindsHaveTheNamesOfJSON checks that errors name what settings name.
func TestKindsHaveTheNamesOfJSON(t *testing.T) {
	for k := range NumKinds {
		a := One(k, 7)
		data, err := json.Marshal(a)
		if err != nil || !strings.Contains(string(data), `"`+k.String()+`":7`) {
			t.Errorf("kind %d is called %s in %s (%v)", k, k, data, err)
		}
		if Of(a, k) != 7 || FromValues(Values(a)) != a {
			t.Errorf("%s: %+v does not come back", k, a)
		}
	}
}

// meaning is what a number means: how many can be taken one by one, as a
// float so that nothing overflows.
func meaning(n int64) float64 {
	if n == Unlimited {
		return math.Inf(1)
	}
	return float64(n)
}

func TestArithmeticMeansWhatItSays(t *testing.T) {
	const largest = float64(math.MaxInt64)
	for k := range NumKinds {
		for _, x := range numbers {
			for _, y := range numbers {
				a, b := One(k, x), One(k, y)
				mx, my := meaning(x), meaning(y)
				sum := mx + my
				if !math.IsInf(sum, 0) {
					sum = min(sum, largest)
				}
				if got := meaning(Of(Add(a, b), k)); got != sum {
					t.Errorf("%s: %d + %d = %v, want %v", k, x, y, got, sum)
				}
				if got, want := meaning(Of(Min(a, b), k)), min(mx, my); got != want {
					t.Errorf("%s: min(%d, %d) = %v, want %v", k, x, y, got, want)
				}
				if _, ok := Within(a, b); ok != (mx <= my) && x < math.MaxInt64-1 {
					t.Errorf("%s: %d within %d is %v", k, x, y, ok)
				}
			}
		}
	}
}

func TestSub(t *testing.T) {
	for _, tt := range []struct{ a, b, want int64 }{
		{Unlimited, 5, Unlimited}, {Unlimited, Unlimited, Unlimited}, {5, Unlimited, 0}, {0, Unlimited, 0},
		{5, 3, 2}, {5, 5, 0}, {5, 6, 0}, {math.MaxInt64, 1, math.MaxInt64 - 1}, {0, math.MaxInt64, 0},
	} {
		for k := range NumKinds {
			if got := Of(Sub(One(k, tt.a), One(k, tt.b)), k); got != tt.want {
				t.Errorf("%s: %d - %d = %d, want %d", k, tt.a, tt.b, got, tt.want)
			}
		}
	}
}

func TestWithinNamesTheKind(t *testing.T) {
	for k := range NumKinds {
		v := Values(NoBound())
		v[k] = 10
		bound := FromValues(v)
		if got, ok := Within(One(k, 11), bound); ok || got != k {
			t.Errorf("11 of %s within 10: %s, %v", k, got, ok)
		}
		if got, ok := Within(One(k, Unlimited), bound); ok || got != k {
			t.Errorf("no bound on %s within 10: %s, %v", k, got, ok)
		}
		if _, ok := Within(One(k, 10), bound); !ok {
			t.Errorf("10 of %s not within 10", k)
		}
	}
}

func TestChecks(t *testing.T) {
	for k := range NumKinds {
		for _, tt := range []struct {
			n           int64
			bound, draw bool
		}{{0, true, true}, {5, true, true}, {-1, true, false}, {-2, false, false}, {math.MinInt64, false, false}} {
			for what, err := range map[string]error{"bound": CheckBound(One(k, tt.n)), "draw": CheckDraw(One(k, tt.n))} {
				ok := tt.bound
				if what == "draw" {
					ok = tt.draw
				}
				var e *sandbox.Error
				if ok != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "budget."+k.String()) {
					t.Errorf("%d of %s as a %s: %v", tt.n, k, what, err)
				}
			}
		}
	}
}

func TestCheckMetered(t *testing.T) {
	for _, tt := range []struct {
		name    string
		bound   Amount
		metered []Kind
		want    string // field, or empty
	}{
		{"nothing granted", Amount{}, nil, ""},
		{"no bound", NoBound(), nil, ""},
		{"a bound on the GPU", Amount{GPUMs: 5}, []Kind{Calls, CPUMs}, "budget.gpuMs"},
		{"metered", Amount{GPUMs: 5, Calls: 1}, []Kind{Calls, GPUMs}, ""},
		{"the largest", Amount{CPUMs: math.MaxInt64}, []Kind{GPUMs}, "budget.cpuMs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckMetered(tt.bound, tt.metered...)
			var e *sandbox.Error
			switch {
			case tt.want == "" && err == nil:
			case !errors.As(err, &e) || e.Code != sandbox.CodeUnsupported || e.Field != tt.want:
				t.Errorf("got %v, want field %q", err, tt.want)
			}
		})
	}
}

// randomAmount takes its numbers from the edges and from small ones.
func randomAmount(r *rand.Rand, unlimited bool) Amount {
	var v [NumKinds]int64
	for k := range v {
		v[k] = int64(r.Intn(20))
		if unlimited && r.Intn(3) == 0 {
			v[k] = Unlimited
		}
	}
	return FromValues(v)
}

package timeline

import (
	"fmt"
	"testing"
)

// Rates are those of the PCIe specifications, in GB a second.
func TestLinkRate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		link Link
		want string
	}{
		{Link{Generation: 1, Width: 16}, "4.00"},
		{Link{Generation: 3, Width: 16, MaxGeneration: 3, MaxWidth: 16}, "15.75"},
		{Link{Generation: 1, Width: 8, MaxGeneration: 4, MaxWidth: 16}, "15.75"}, // at rest, in a narrow slot
		{Link{MaxGeneration: 5, MaxWidth: 16}, "63.02"},
		{Link{Generation: 6, Width: 16}, "121.00"},
		{Link{}, "0.00"},
		{Link{Generation: 4}, "0.00"},
		{Link{Generation: 99, Width: 16}, "0.00"},
	} {
		if got := fmt.Sprintf("%.2f", test.link.Rate()/1e9); got != test.want {
			t.Errorf("%+v: %s GB/s, want %s", test.link, got, test.want)
		}
	}
}

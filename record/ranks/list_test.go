package ranks

import "testing"

func TestWords(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]uint32{"": nil, "3": {3}, "0-1": {0, 1}, "0-2, 5, 7-8": {0, 1, 2, 5, 7, 8}} {
		if got := Words(numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

package main

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"record", "convert", "stats", "info"}
	for word, want := range map[string]string{
		"rec": "record", "recrod": "record", "Convert": "convert", "covnert": "convert", "stat": "stats",
		"r": "", "x": "", "": "", "something": "", "inof": "info", "python": "", "train": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

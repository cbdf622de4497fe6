package nearest

import "testing"

func TestTo(t *testing.T) {
	names := []string{"record", "convert", "stats", "info"}
	for word, want := range map[string]string{
		"rec": "record", "recrod": "record", "Convert": "convert", "covnert": "convert", "stat": "stats",
		"r": "", "x": "", "": "", "something": "", "inof": "info",
	} {
		if got := To(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

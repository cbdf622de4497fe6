package figures

import (
	"slices"
	"testing"
)

func TestShell(t *testing.T) {
	t.Parallel()
	got := Shell("cudatrace", "record", "-o", "a b", "--", "./it's", "", "*.py", "x=1,2")
	if want := `cudatrace record -o 'a b' -- './it'\''s' '' '*.py' x=1,2`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBreakable: a line never ends within a command.
func TestBreakable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"two words":                            {"two", "words"},
		"no -t; write: cudatrace record ./a b": {"no", "-t;", "write:", "cudatrace record ./a b"},
		"cudatrace stats a":                    {"cudatrace stats a"},
		"see 'cudatrace help record' or not":   {"see", "'cudatrace help record'", "or", "not"},
		"see 'cudatrace stats 'a b''":          {"see", "'cudatrace stats 'a", "b''"},
		"an end 'cudatrace":                    {"an", "end", "'cudatrace"},
		"the end of cudatrace is here":         {"the", "end", "of", "cudatrace", "is", "here"},
	} {
		if got := Breakable(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

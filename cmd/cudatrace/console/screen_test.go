package console

import (
	"slices"
	"strings"
	"testing"
)

// A frame shows lines one below the other, cut and escaped, and clears what stood there.
func TestFrame(t *testing.T) {
	t.Parallel()
	lines := []Line{{Text: "head", Style: Reverse}, {Text: "a\x1b[2J\nb"}, {Text: "abcdefghijklmnop"}, {Text: "too much"}}
	if got, want := frame(lines, 14, 3), "\x1b[H\x1b[K\x1b[7mhead\x1b[0m\r\n\x1b[Ka\\u001b[2J\\nb\r\n\x1b[Kabcdefg…klmnop"; got != want {
		t.Errorf("the frame is\n%q, want\n%q", got, want)
	}
	if got := frame(lines[:1], 14, 3); !strings.HasSuffix(got, "head\x1b[0m\r\n\x1b[J") {
		t.Errorf("the frame %q does not clear what is below", got)
	}
}

func TestSplitKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{"q": {"q"}, "aé": {"a", "é"}, "\x1b[A": {"\x1b[A"}, "\x1b": {"\x1b"}} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

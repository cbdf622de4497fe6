package figures

import "testing"

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab…ef"}, {"abcdef", 4, "ab…f"}, {"abcdef", 2, "a…"}, {"abcdef", 1, "…"}, {"żółćżółć", 5, "żó…łć"}, {"", 0, ""}} {
		if got := Cut(c.text, c.width); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestUUID(t *testing.T) {
	t.Parallel()
	if got, want := UUID("6375646173696d2d6465766963652d00"), "GPU-63756461-7369-6d2d-6465-766963652d00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := UUID("6375"); got != "" {
		t.Errorf("%q of no UUID", got)
	}
}

package pattern

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A pattern selects ranges with and without their numbers, and by their domains.
func TestRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name, domain string
		want                  bool
	}{
		{"step", "step", "", true},
		{"step", "step", "model", true},
		{"step", "step 7", "", true},
		{"step", "step_12", "", true},
		{"step", "step#0", "", true},
		{"step", "step/7, batch 3", "", true},
		{"step", "step, batch 3", "", true},
		{"step", "steps", "", false},
		{"step", "step 7a", "", false},
		{"step", "my step 7", "", false},
		{"step", "step 12345678901", "", false},
		{"step", "step -", "", false},
		{"step 1", "step 1", "", true},
		{"step 1", "step 1, batch 3", "", true},
		{"step 1", "step 12", "", false},
		{"step 1?", "step 12", "", true},
		{"step*", "stepping", "", true},
		{"*step", "train/step 7", "", true},
		{"st[aeiou]p", "step 7", "", true},
		{"st[^e]p", "step 7", "", false},
		{"7", "7", "", true},
		{"Optimizer.step#AdamW.step", "Optimizer.step#AdamW.step", "", true},
		{"aten::add", "aten::add, seq = 1, sizes = [[3, 4]]", "", true},
		{"aten::add", "aten::addmm, seq = 1", "", false},
		{"step@", "step", "", true},
		{"step@", "step", "model", false},
		{"step@model", "step 7", "model", true},
		{"step@model", "step", "", false},
		{"step@mod*", "step", "model", true},
		{"step@*", "step", "", true},
		{"a@b@", "a@b", "", true},
		{"a@b", "a@b", "", false},
	} {
		r := must.Get(ParseRanges(c.pattern))(t)
		if got := r.Match(c.name, c.domain); got != c.want {
			t.Errorf("%q selects %q of domain %q: %t", c.pattern, c.name, c.domain, got)
		}
	}
	if (Ranges{}).Match("", "") {
		t.Error("no pattern selects a range")
	}
}

// The number of a range is at the end of its name, in front of what follows a comma.
func TestStem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		stem   string
		number int64
	}{
		"step 7": {"step", 7}, "step_12": {"step", 12}, "step#0": {"step", 0}, "step7": {"step", 7}, "step": {"step", Counted}, "step, batch 3": {"step", Counted},
		"step 7, batch 3": {"step", 7}, "step 7a": {"step 7a", Counted}, "step 12345678901": {"step 12345678901", Counted}, "7": {"7", Counted}, "": {"", Counted},
		"layer 3.attention 0": {"layer 3.attention", 0},
	} {
		if stem, number := Stem(name); stem != want.stem || number != want.number {
			t.Errorf("%q is %d of %q, want %d of %q", name, number, stem, want.number, want.stem)
		}
	}
}

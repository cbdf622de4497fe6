package tracelog

import "testing"

// The number of a step is behind its name; a range that goes on with something else is no step.
func TestStepNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"step 7": 7, "step_12": 12, "step#0": 0, "step": Counted, "step, batch 3": Counted, "step 7, batch 3": 7,
		"steps": -2, "step 7a": -2, "my step 7": -2, "step 12345678901": -2, "step -": -2} {
		n, is := Steps{Name: "step"}.Number(name, "")
		if !is {
			n = -2
		}
		if n != want {
			t.Errorf("%q is %d, want %d", name, n, want)
		}
	}
	for domain, want := range map[string]bool{"": false, "d": true, "*": true} {
		if _, is := (Steps{Name: "step", Domain: domain}).Number("step 1", "d"); is != want {
			t.Errorf("domain %q: %t", domain, is)
		}
	}
	if _, is := (Steps{}).Number("", ""); is {
		t.Error("a range without a name is a step of no name")
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ring"
)

// TestCaptureRanges reads patterns of NVTX ranges, with their domains.
func TestCaptureRanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pattern.Ranges{
		"step":         {Name: "step", Domain: "*"},
		"step@model":   {Name: "step", Domain: "model"},
		"step@":        {Name: "step"},
		"a@b@":         {Name: "a@b"},
		"größe 1@a b":  {Name: "größe 1", Domain: "a b"},
		"step*":        {Name: "step*", Domain: "*"},
		"a@b@training": {Name: "a@b", Domain: "training"},
	} {
		got, err := pattern.ParseRanges(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %q, %v", text, got, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                        "it lacks the name of a range",
		"@model":                  "it lacks the name of a range",
		"a[@model":                `a [ lacks its ], or nothing follows a \`,
		"a\x00b":                  "a name has no zero byte",
		strings.Repeat("x", 1024): "the name of a range, with its domain, has at most 1023 bytes",
	} {
		r, err := pattern.ParseRanges(text)
		if err == nil {
			err = record.CheckCapture(r)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%.10q: %v, want %s", text, err, want)
		}
	}
}

// TestTriggerCondition reads conditions of --trigger.
func TestTriggerCondition(t *testing.T) {
	for text, want := range map[string]ring.Condition{
		"call-failed": {On: ring.FailedCalls},
		"call>10ms":   {On: ring.LongCalls, Limit: 10 * time.Millisecond},
		"kernel>1s":   {On: ring.LongKernels, Limit: time.Second},
		"step>1.5":    {On: ring.SlowSteps, Factor: 1.5},
	} {
		if got, err := triggerCondition(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":               `must be call-failed, call>TIME, kernel>TIME or step>FACTOR, not ""`,
		"calls>1s":       `must be call-failed, call>TIME, kernel>TIME or step>FACTOR, not "calls>1s"`,
		"call-failed>1s": `"call-failed>1s": call-failed has no limit`,
		"call":           `"call" lacks a limit: write 'call>...' in quotes, as > is the shell's`,
		"step>":          `"step>" lacks a limit: write 'step>...' in quotes, as > is the shell's`,
		"step>1":         `"step>1": the factor must be a number above 1, such as 2 or 1.5`,
		"step>NaN":       `"step>NaN": the factor must be a number above 1, such as 2 or 1.5`,
		"step>Inf":       `"step>Inf": the factor must be a number above 1, such as 2 or 1.5`,
		"kernel>0s":      `"kernel>0s": the time must be more than 0`,
		"kernel>x":       `"kernel>x": --trigger "x" is not a time: write 10us, 1.5ms or 2 (seconds)`,
	} {
		if _, err := triggerCondition(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

package record

import (
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/cupti"
)

func TestParseNVTXRange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]NVTXRange{
		"step":         {Name: "step"},
		"step@model":   {Name: "step", Domain: "model"},
		"step@*":       {Name: "step", Domain: "*"},
		"a@b@":         {Name: "a@b"},
		"größe 1@a b":  {Name: "größe 1", Domain: "a b"},
		"step*":        {Name: "step*"},
		"a@b@training": {Name: "a@b", Domain: "training"},
	} {
		got, err := ParseNVTXRange(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %q, %v", text, got, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                        "it lacks the name of a range",
		"@model":                  "it lacks the name of a range",
		"a\x00b":                  "a name has no zero byte",
		strings.Repeat("x", 1024): "the name of a range, with its domain, has at most 1023 bytes",
	} {
		if _, err := ParseNVTXRange(text); err == nil || err.Error() != want {
			t.Errorf("%.10q: %v, want %s", text, err, want)
		}
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	step := NVTXRange{Name: "step"}
	for text, want := range map[string]cupti.Steps{
		"0": {First: 0, Last: 0, Limited: true}, "7": {First: 7, Last: 7, Limited: true},
		"100-110": {First: 100, Last: 110, Limited: true}, "0-999": {First: 0, Last: 999, Limited: true},
	} {
		if got, err := step.WithSteps(text); err != nil || got.Steps != want || got.Name != "step" {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "a", "1-", "-1", "2-1", "1-2-3", "0-1000", "0-99999999999"} {
		if got, err := step.WithSteps(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	long := NVTXRange{Name: strings.Repeat("x", 1023)}
	if _, err := long.WithSteps("1"); err == nil || !strings.Contains(err.Error(), "at most 1014 bytes") {
		t.Error(err)
	}
}

package record

import (
	"strings"
	"testing"
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

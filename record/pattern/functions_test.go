package pattern

import "testing"

func TestParseFunctions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Functions{
		"libx.so:f*":          {File: "libx.so", Name: "f*"},
		"/opt/app:step/2":     {File: "/opt/app", Name: "step", Args: 2},
		"app:ns::f":           {File: "app", Name: "ns::f"},
		"libx:f/entry":        {File: "libx", Name: "f", Once: true},
		"libx:f/6/entry":      {File: "libx", Name: "f", Args: 6, Once: true},
		"lib[ab].so:*[!x]/0":  {File: "lib[ab].so", Name: "*[!x]"},
		"libx.so:f?/entry/02": {File: "libx.so", Name: "f?", Args: 2, Once: true},
	} {
		got, err := ParseFunctions(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := ParseFunctions(got.String()); err != nil || again != want {
			t.Errorf("%s is written as %s: %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		":f":         "it must be FILE:GLOB",
		"libx:":      "it must be FILE:GLOB",
		"libx:/2":    "it must be FILE:GLOB",
		"libx:f/7":   `behind / there must be entry, or a number of arguments from 0 to 6, not "7"`,
		"libx:f/-1":  `behind / there must be entry, or a number of arguments from 0 to 6, not "-1"`,
		"libx:f/":    `behind / there must be entry, or a number of arguments from 0 to 6, not ""`,
		"libx:f/two": `behind / there must be entry, or a number of arguments from 0 to 6, not "two"`,
		"lib[x:f":    `a [ lacks its ], or nothing follows a \`,
		"libx:f[":    `a [ lacks its ], or nothing follows a \`,
	} {
		if _, err := ParseFunctions(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFunctionsIn(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		pattern, file string
		in            bool
	}{
		{"libx", "/usr/lib/libx.so.1.2", true}, {"libx.so", "/usr/lib/libx.so.1.2", true}, {"libx.so.1.2", "/usr/lib/libx.so.1.2", true},
		{"libx.so.1", "/usr/lib/libx.so.1.2", false}, {"libx", "/usr/lib/libxy.so", false}, {"lib*", "/usr/lib/libxy.so", true},
		{"app", "/opt/app", true}, {"app", "/app/bin", false}, {"/opt/*", "/opt/bin/app", true}, {"/opt/app", "/srv/opt/app", false},
	} {
		if got := (Functions{File: x.pattern, Name: "*"}).In(x.file); got != x.in {
			t.Errorf("%s in %s: %t", x.file, x.pattern, got)
		}
	}
}

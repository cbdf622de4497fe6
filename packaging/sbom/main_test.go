package main

import (
	"crypto/sha256"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/main", Version: "(devel)"}, Deps: []*debug.Module{
		{Path: "example.com/z", Version: "v1.0.0", Sum: "h1:" + strings.Repeat("A", 43) + "="},
		{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/a", Version: "v2.0.0", Sum: "h1:" + strings.Repeat("A", 43) + "="}},
	}, Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}}
	d, err := describe(info, "1.2.3", sha256.Sum256(nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("0", 64)
	want := `{"bomFormat":"CycloneDX","specVersion":"1.5","version":1,"metadata":{"component":` +
		`{"bom-ref":"pkg:golang/example.com/main@1.2.3?goos=linux&goarch=arm64","type":"application","name":"example.com/main","version":"1.2.3",` +
		`"purl":"pkg:golang/example.com/main@1.2.3?goos=linux&goarch=arm64","hashes":[{"alg":"SHA-256","content":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}},"components":[` +
		`{"bom-ref":"pkg:golang/example.com/a@v2.0.0","type":"library","name":"example.com/a","version":"v2.0.0","purl":"pkg:golang/example.com/a@v2.0.0","hashes":[{"alg":"SHA-256","content":"` + zeros + `"}]},` +
		`{"bom-ref":"pkg:golang/example.com/z@v1.0.0","type":"library","name":"example.com/z","version":"v1.0.0","purl":"pkg:golang/example.com/z@v1.0.0","hashes":[{"alg":"SHA-256","content":"` + zeros + `"}]},` +
		`{"bom-ref":"pkg:golang/std@1.26.8","type":"library","name":"std","version":"1.26.8","purl":"pkg:golang/std@1.26.8"}],"dependencies":[` +
		`{"ref":"pkg:golang/example.com/main@1.2.3?goos=linux&goarch=arm64","dependsOn":["pkg:golang/example.com/a@v2.0.0","pkg:golang/example.com/z@v1.0.0","pkg:golang/std@1.26.8"]}]}`
	if strings.ReplaceAll(string(got), `\u0026`, "&") != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	info.Deps[0].Sum = ""
	if _, err := describe(info, "1.2.3", sha256.Sum256(nil)); err == nil || !strings.Contains(err.Error(), "example.com/z v1.0.0 has no checksum") {
		t.Errorf("a module without a checksum: %v", err)
	}
}

func TestTimestamp(t *testing.T) {
	t.Parallel()
	for epoch, want := range map[string]string{"": "", "0": "1970-01-01T00:00:00Z", "x": "SOURCE_DATE_EPOCH=x is no number of seconds"} {
		got, err := timestamp(epoch)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", epoch, got, want)
		}
	}
}

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/cudatrace/cudatrace/"

// layers says what a package, or a folder of packages, must not import, however
// indirectly. Capture needs privileges and a kernel; what reads logs must not.
var layers = []struct {
	packages  string
	forbidden []string
}{
	{"convert", []string{"github.com/cilium/ebpf", module + "bpf", module + "record/cupti", module + "record/probe", "github.com/urfave/cli", "net"}},
	{"perfetto", []string{"github.com/cilium/ebpf", module, "github.com/urfave/cli", "net"}},
	{"record", []string{"github.com/urfave/cli", module + "convert", module + "perfetto", "net/http"}},
	{"record/probe", []string{module + "record/cupti"}},
	{"record/cupti", []string{module + "record/probe", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/callers", []string{module + "record/probe", module + "record/cupti", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/elfsym", []string{module + "record/probe", module + "record/cupti", module + "record/callers"}},
	{"record/tracelog", []string{module}},
	{"record/tracelog/schema", []string{module}},
	{"record/tracelog/internal/blockfile", []string{module + "record/tracelog/internal/columns"}},
	{"record/tracelog/internal/columns", []string{module + "record/tracelog/internal/blockfile"}},
	{"record/cudaapi", []string{module, "golang.org/x/sys"}},
	{"record/procfs", []string{module}},
	{"record/host", []string{module}},
	{"record/errno", []string{module}},
	{"record/figures", []string{module}},
	{"bpf", []string{module, "github.com/urfave/cli"}},
	{"cmd", []string{"net/http"}},
}

func TestLayers(t *testing.T) {
	for _, p := range packageDeps(t) {
		for _, l := range layers {
			if !under(p.ImportPath, module+l.packages) {
				continue
			}
			for _, dep := range p.Deps {
				for _, bad := range l.forbidden {
					own := under(dep, module+l.packages)
					if !own && under(dep, strings.TrimSuffix(bad, "/")) {
						t.Errorf("%s imports %s: %s must not know of it", p.ImportPath, dep, l.packages)
					}
				}
			}
		}
	}
}

// under says whether path is the package dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

type goPackage struct {
	ImportPath string
	Deps       []string
}

func packageDeps(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Deps", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, module+"perfetto/tptest") {
			list = append(list, p)
		}
	}
	if len(list) < len(layers) {
		t.Fatalf("go list names %d packages of this module; the rules speak of %d folders", len(list), len(layers))
	}
	return list
}

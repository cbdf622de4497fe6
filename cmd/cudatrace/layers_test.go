package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cudatrace/cudatrace/"

// layers says what a package, or a folder of packages, must not import, however
// indirectly. Capture needs privileges and a kernel; what reads logs must not. What packages of convert import of one another
// dataPath says.
var layers = []struct {
	packages  string
	forbidden []string
}{
	{"convert", []string{"github.com/cilium/ebpf", module + "bpf", module + "record/internal/cupti", module + "record/internal/probe", "github.com/urfave/cli", "net"}},
	{"convert/internal/ordered", []string{module}},
	{"convert/internal/sketch", []string{module}},
	{"convert/internal/query", []string{module}},
	{"parquet", []string{"github.com/cilium/ebpf", module, "github.com/urfave/cli", "net"}},
	{"perfetto", []string{"github.com/cilium/ebpf", module, "github.com/urfave/cli", "net"}},
	{"record", []string{"github.com/urfave/cli", module + "convert", module + "perfetto", "net/http"}},
	{"record/internal/probe", []string{module + "record/internal/cupti"}},
	{"record/internal/cupti", []string{module + "record/internal/probe", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/internal/cupti/privatefolder", []string{module + "record/internal/cupti", module + "record/tracelog", module + "record/host"}},
	{"record/internal/callers", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/internal/pyframes", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "record/internal/callers", module + "record/tracelog"}},
	{"record/internal/threads", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "record/internal/callers"}},
	{"record/internal/torchmem", []string{module + "record/internal/cupti", module + "record/internal/callers"}},
	{"record/internal/blocked", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "record/internal/callers", module + "record/tracelog", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/internal/door", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "record/tracelog"}},
	{"record/stuck", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "convert", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/gpumetrics", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/ring", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/livemem", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "convert", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/internal/elfsym", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "record/internal/callers"}},
	{"record/tracelog", []string{module}},
	{"record/tracelog/schema", []string{module}},
	{"record/tracelog/internal/blockfile", []string{module + "record/tracelog/internal/columns"}},
	{"record/tracelog/internal/columns", []string{module + "record/tracelog/internal/blockfile"}},
	{"record/cudaapi", []string{module, "golang.org/x/sys"}},
	{"record/metric", []string{module}},
	{"record/metriclog", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "convert", module + "bpf", "github.com/cilium/ebpf"}},
	{"record/procfs", []string{module}},
	{"record/host", []string{module}},
	{"record/errno", []string{module}},
	{"record/pattern", []string{module}},
	{"record/invoker", []string{module}},
	{"record/metadata", []string{module, "net", "os/exec"}},
	{"record/ranks", []string{module + "record/tracelog", module + "record/internal/probe", module + "record/internal/cupti", module + "convert", module + "bpf"}},
	{"record/doctor", []string{"github.com/urfave/cli", module + "convert", module + "perfetto"}},
	{"record/outfile", []string{module + "record/internal/probe", module + "record/internal/cupti", module + "convert", module + "bpf", "github.com/cilium/ebpf", "net"}},
	{"record/internal/openfiles", []string{module, "golang.org", "fmt", "os"}}, // initialised before all others
	{"record/figures", []string{module}},
	{"bpf", []string{module, "github.com/urfave/cli"}},
	{"cmd/cudatrace/browser", []string{module, "github.com/urfave/cli"}},
}

// below are the packages that all others may import, and that import none of them: one reads what is below /proc, one has the
// patterns that people write, one writes numbers and texts, one ends tests.
var below = []string{module + "record/procfs", module + "record/pattern", module + "record/figures", module + "record/must"}

// harmless are packages below net that only take addresses apart: html/template imports them.
var harmless = []string{"net/url", "net/netip"}

func TestLayers(t *testing.T) {
	for _, p := range packageDeps(t) {
		for _, l := range layers {
			if !under(p.ImportPath, module+l.packages) {
				continue
			}
			for _, dep := range p.Deps {
				for _, bad := range l.forbidden {
					allowed := slices.Contains(harmless, dep) || under(dep, module+l.packages) || bad == module && slices.Contains(below, dep)
					if !allowed && under(dep, strings.TrimSuffix(bad, "/")) {
						t.Errorf("%s imports %s: %s must not know of it", p.ImportPath, dep, l.packages)
					}
				}
			}
		}
	}
}

// dataPath says which packages of convert, of perfetto and of parquet each package of convert imports
// itself. A package imports only packages that stand above it: data goes down this table.
var dataPath = []struct{ name, imports string }{
	{"timeline", ""},
	{"kernelnames", "timeline"},
	{"occupancy", "timeline"},
	{"ordered", ""},
	{"read", "ordered timeline"},
	{"selection", "timeline"},
	{"sketch", ""},
	{"query", ""},
	{"sampled", "sketch timeline"},
	{"pipeline", "timeline"},
	{"collective", "timeline"},
	{"join", "collective ordered pipeline read sampled selection timeline"},
	{"activity", "ordered timeline"},
	{"steps", "activity timeline"},
	{"critical", "activity timeline"},
	{"steppaths", "activity critical steps timeline"},
	{"live", "activity query sketch timeline"},
	{"pfsink", "activity critical occupancy perfetto steppaths steps timeline"},
	{"chromesink", "activity occupancy steppaths timeline"},
	{"stats/table", ""},
	{"stats/findings", "activity critical sketch timeline"},
	{"stats/ranks", "collective critical sketch stats/findings stats/table timeline"},
	{"stats", "activity critical kernelnames occupancy query sampled sketch stats/findings stats/ranks stats/table " +
		"steps timeline"},
	{"joined", "occupancy stats timeline"},
	{"parquetsink", "joined parquet"},
	{"ndjsonsink", "joined"},
	{"pprofsink", "kernelnames query timeline"},
	{"diff", "kernelnames stats stats/table timeline"},
	{"prometheus", "stats stats/table"},
	{"report", "activity kernelnames stats stats/findings stats/table timeline"},
	{"output", ""},
	{"", "chromesink collective join joined ndjsonsink output parquetsink pfsink pipeline pprofsink read sampled selection timeline"}, // convert itself
}

// The packages of convert are those of dataPath, and import what it says.
func TestLayersOfConvert(t *testing.T) {
	imports := make(map[string]string)
	for _, p := range packageDeps(t) {
		if name, ok := ofConvert(p.ImportPath); ok && !forTests(name) {
			imports[name] = dataImports(p)
		}
	}
	above := map[string]bool{"perfetto": true, "parquet": true}
	for _, rule := range dataPath {
		for name := range strings.FieldsSeq(rule.imports) {
			if !above[name] {
				t.Errorf("%q is to import %q, which does not stand above it", rule.name, name)
			}
		}
		above[rule.name] = true
		if got, ok := imports[rule.name]; !ok || got != rule.imports {
			t.Errorf("convert/%s imports %q, its rule is %q", rule.name, got, rule.imports)
		}
		delete(imports, rule.name)
	}
	for name := range imports {
		t.Errorf("convert/%s has no rule", name)
	}
}

// What record's or convert's own tree alone imports lies below a folder internal, so that nothing else can lean on it.
func TestLayersInternal(t *testing.T) {
	importers := make(map[string][]string)
	for _, p := range packageDeps(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			importers[path] = append(importers[path], p.ImportPath)
		}
	}
	for path, of := range importers {
		for _, tree := range []string{"record", "convert"} {
			own := func(importer string) bool { return under(importer, module+tree) }
			if under(path, module+tree) && !strings.Contains(path, "/internal/") && !slices.ContainsFunc(of, func(i string) bool { return !own(i) }) {
				t.Errorf("%s alone imports %s: it belongs below %s/internal", tree, path, tree)
			}
		}
	}
}

// ofConvert returns the name of a package below convert, without the folders internal; "" for convert itself.
func ofConvert(path string) (name string, ok bool) {
	if !under(path, module+"convert") {
		return "", false
	}
	return strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(path, module+"convert"), "/"), "internal/", ""), true
}

// dataImports names the packages of convert, perfetto and parquet that a package imports.
func dataImports(p goPackage) string {
	var names []string
	for _, path := range p.Imports {
		if name, ok := ofConvert(path); ok {
			names = append(names, name)
		} else if under(path, module+"perfetto") || under(path, module+"parquet") {
			names = append(names, strings.TrimPrefix(path, module))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Commands and tests alone know convert, pfsink alone knows perfetto, parquetsink alone knows parquet, of convert only read, join and
// convert itself know tracelog, and what is for tests is known to tests alone.
func TestLayersEntrances(t *testing.T) {
	for _, p := range packageDeps(t) {
		name, ofConvert := ofConvert(p.ImportPath)
		for _, path := range p.Imports {
			switch {
			case path == module+"convert" && !under(p.ImportPath, module+"cmd") && !forTests(p.ImportPath),
				path == module+"perfetto" && p.ImportPath != module+"convert/internal/pfsink",
				path == module+"parquet" && p.ImportPath != module+"convert/internal/parquetsink" && !under(p.ImportPath, module+"parquet"),
				path == module+"record/tracelog" && ofConvert && name != "read" && name != "join" && name != "" && !forTests(name),
				under(path, strings.TrimSuffix(module, "/")) && forTests(path) && !forTests(p.ImportPath):
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
}

// forTests reports whether a package is for tests.
func forTests(path string) bool {
	return strings.HasSuffix(path, "test") || strings.HasSuffix(path, "/must")
}

// under reports whether path is the package dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

type goPackage struct {
	ImportPath    string
	Dir           string
	Imports, Deps []string

	TestImports, XTestImports []string
}

func packageDeps(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Dir,Imports,Deps,TestImports,XTestImports", module+"...").Output()
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
